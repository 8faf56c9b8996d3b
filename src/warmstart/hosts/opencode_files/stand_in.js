// A stub for the package that OpenCode installs for plugins: without a network, OpenCode waits more than a minute for it
// at every start. To get the real package, delete `node_modules` and `package-lock.json` in OpenCode's configuration
// folder and start OpenCode with a network.
export const tool = Object.assign((definition) => definition, {
  get schema() {
    throw new Error("@opencode-ai/plugin is a stub by Warmstart; delete node_modules and start OpenCode again")
  },
})
