// Warmstart in OpenCode. `warmstart install opencode` wrote this file, `warmstart uninstall opencode` deletes it.
//
// Every hook asks a Warmstart process and continues without an answer if that takes too long. None of them throws,
// because a plugin that throws ends the run.
//
// OpenCode 1.x (from 1.18.29) calls `server`, OpenCode 2.x calls `setup`.
import { spawn } from "node:child_process"

const COMMAND = "{command}"
const ENVIRONMENT = "{environment}"
const WAIT = 2_000, SHORT_WAIT = 1_000 // milliseconds for what the user waits for, and for the rest

const ask = (event, data, timeout) =>
  new Promise((resolve) => {
    const [program, ...words] = COMMAND
    let output = ""
    const child = spawn(program, [...words, event], {
      env: { ...ENVIRONMENT, ...process.env },
      stdio: ["pipe", "pipe", "ignore"],
    })
    const timer = setTimeout(() => child.kill("SIGKILL"), timeout)
    const finish = () => {
      clearTimeout(timer)
      try {
        resolve(String(JSON.parse(output).context))
      } catch {
        resolve("")
      }
    }
    child.on("error", finish)
    child.on("close", finish)
    child.stdin.on("error", () => {})
    child.stdout.setEncoding("utf8").on("data", (text) => (output += text))
    child.stdin.end(JSON.stringify(data))
  })

const withDeadline = (promise) =>
  Promise.race([promise, new Promise((_, reject) => setTimeout(reject, SHORT_WAIT).unref?.())])

const safe = (hook) => async (...values) => {
  try {
    await hook(...values)
  } catch {}
}

const typed = (parts) =>
  parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text).join("\n")

const isDisabled = () => !["", "0", undefined].includes(process.env.WARMSTART_DISABLED)

const server = async ({ client, directory }) => {
  if (isDisabled()) return {}
  const main = new Map() // by session: whether it is a person's, not a subagent's
  const starts = new Map() // by session: the promise of its start
  const compacting = new Set() // sessions whose next request asks for a summary
  const running = new Set()

  const isMain = async (sessionID) => {
    if (!main.has(sessionID)) {
      const { data } = await withDeadline(client.session.get({ path: { id: sessionID } }))
      main.set(sessionID, !data.parentID)
    }
    return main.get(sessionID)
  }
  const answer = async (event, sessionID, more, timeout) => {
    const asked = ask(event, { session_id: sessionID, cwd: directory, ...more }, timeout)
    running.add(asked)
    const text = await asked
    running.delete(asked)
    return text
  }
  const conversation = async (sessionID) => {
    const { data } = await withDeadline(client.session.messages({ path: { id: sessionID } }))
    const prompts = data.filter(({ info }) => info.role === "user").map(({ parts }) => typed(parts))
    return { prompts, is_compacted: data.some(({ info }) => info.summary === true) }
  }
  const begin = async (sessionID, model) =>
    (await isMain(sessionID)) ? answer("start", sessionID, { model, ...(await conversation(sessionID)) }, WAIT) : ""
  const start = (sessionID, model) => {
    if (!starts.has(sessionID)) starts.set(sessionID, begin(sessionID, model).catch(() => ""))
    return starts.get(sessionID)
  }

  return {
    "experimental.chat.system.transform": safe(async ({ sessionID, model }, { system }) => {
      if (!sessionID || compacting.delete(sessionID) || system[0]?.startsWith("You are a title generator")) return
      const text = await start(sessionID, model?.id)
      if (text) system.push(text)
    }),
    "chat.message": safe(async ({ sessionID }, { message, parts }) => {
      const prompt = typed(parts)
      if (!prompt || !(await isMain(sessionID))) return
      start(sessionID, message.model?.modelID) // in parallel
      const text = await answer("prompt", sessionID, { prompt }, WAIT)
      const id = `${parts.at(-1).id}w` // parts are sorted by id
      if (text) parts.push({ id, messageID: message.id, sessionID, type: "text", synthetic: true, text })
    }),
    "tool.execute.after": safe(async ({ tool, sessionID, args }, result) => {
      const code = result.metadata?.exit
      if (tool !== "bash" || !code || !(await isMain(sessionID))) return
      const output = `exit code ${code}\n${result.output}`
      const text = await answer("failed", sessionID, { arguments: args, output }, SHORT_WAIT)
      if (text) result.output += `\n\n${text}`
    }),
    "experimental.session.compacting": safe(async ({ sessionID }, { context }) => {
      compacting.add(sessionID)
      if (!(await isMain(sessionID))) return
      const text = await answer("compacting", sessionID, await conversation(sessionID), WAIT)
      if (text) context.push(text)
    }),
    event: safe(async ({ event }) => {
      const sessionID = event.properties?.sessionID
      if (event.type === "session.compacted" && (await isMain(sessionID))) {
        starts.delete(sessionID)
        await answer("compacted", sessionID, {}, SHORT_WAIT)
      }
      if (event.type === "session.idle") await answer("idle", sessionID, {}, SHORT_WAIT)
    }),
    dispose: safe(async () => {
      await Promise.allSettled([...running])
    }),
  }
}

const setup = async ({ session, event, location }) => {
  if (isDisabled()) return
  const prompts = new Map() // by session: what the user typed
  const starts = new Map() // by session: the promise of its start
  const turns = new Map() // by session: the promise of the text for the last prompt
  const stop = new AbortController()

  const answer = (name, sessionID, more, timeout) =>
    ask(name, { session_id: sessionID, cwd: location?.directory ?? process.cwd(), ...more }, timeout)
  const isMain = async (sessionID) => {
    const found = await withDeadline(session.get({ sessionID }))
    return !(found.data ?? found).parentID
  }
  const begin = (sessionID, is_compacted) =>
    starts.set(sessionID, answer("start", sessionID, { prompts: prompts.get(sessionID), is_compacted }, WAIT))
  const listen = safe(async () => {
    for await (const { type, data } of event.subscribe({ signal: stop.signal })) {
      const hasEnded = /^session\.execution\.(succeeded|failed|interrupted)$/.test(type)
      if (hasEnded && prompts.has(data?.sessionID)) answer("idle", data.sessionID, {}, SHORT_WAIT)
    }
  })

  await session.hook("prompt", safe(async ({ sessionID, prompt }) => {
    const text = prompt.text?.trim()
    if (!text || !(await isMain(sessionID))) return
    prompts.set(sessionID, [...(prompts.get(sessionID) ?? []), text])
    if (!starts.has(sessionID)) begin(sessionID, false)
    turns.set(sessionID, answer("prompt", sessionID, { prompt: text }, WAIT))
  }))
  await session.hook("context", safe(async ({ sessionID, system }) => {
    for (const text of [await starts.get(sessionID), await turns.get(sessionID)]) {
      if (text) system.push({ type: "text", text })
    }
  }))
  await session.hook("compaction", safe(async ({ sessionID, system }) => {
    if (!prompts.has(sessionID)) return
    const text = await answer("compacting", sessionID, { prompts: prompts.get(sessionID) }, SHORT_WAIT)
    if (text) system.push({ type: "text", text })
    await answer("compacted", sessionID, {}, SHORT_WAIT)
    begin(sessionID, true)
  }))
  listen()
  return () => stop.abort()
}

export default { id: "warmstart", server, setup }
