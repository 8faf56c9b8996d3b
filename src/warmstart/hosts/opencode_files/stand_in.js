// A stand-in for the package that OpenCode installs for plugins, because OpenCode waits more than a minute for it at
// every start without a network. To have the real one, delete `node_modules` and `package-lock.json` in this folder's
// parent, and start OpenCode with a network.
export const tool = Object.assign((definition) => definition, {
  get schema() {
    throw new Error("@opencode-ai/plugin is a stand-in by Warmstart; delete node_modules and start OpenCode again")
  },
})
