// A tool server with Node's standard library only: `node node_server.mjs` prints {"port": N}.
import { createServer } from "node:http";

const TOKEN = process.env.PEER_TOKEN;
const LARGEST_BODY = 1024 * 1024;
const integer = (...names) => ({
  type: "object",
  properties: Object.fromEntries(names.map((name) => [name, { type: "integer" }])),
  required: names,
  additionalProperties: false,
});
const nothing = { type: "object", properties: {}, additionalProperties: false };

const live = new Map(); // calls at work or subscribed, by thread and id
const answers = new Map(); // what people chose, by call id
const colours = ["red", "green", "blue"];
const key = (thread, id) => JSON.stringify([thread, id]);
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

const tools = {
  add: {
    description: "Add two integers.",
    inputSchema: integer("a", "b"),
    annotations: { readOnly: true },
    run: async (call) => result(call, String(call.arguments.a + call.arguments.b)),
  },
  count: {
    description: "Count to n, in events.",
    inputSchema: integer("n"),
    annotations: { readOnly: true, longRunning: true },
    run: async (call) => {
      await send(call, { ...members(call, `Counting. Subscription ID: ${call.id}`), subscription: true });
      const { group_id, id: tool_call_id } = call;
      for (let number = 1; number <= call.arguments.n && isLive(call); number++) {
        await pause(50);
        const text = JSON.stringify({ number });
        const final = number === call.arguments.n;
        if (isLive(call)) await send(call, { type: "subscription_event", group_id, tool_call_id, text, final });
      }
      forget(call);
    },
  },
  wait: {
    description: "Wait until it is cancelled.",
    inputSchema: nothing,
    annotations: { readOnly: true, longRunning: true },
    run: async (call) => {
      while (isLive(call)) await pause(20);
      await result(call, "Error: cancelled.");
    },
  },
  pick: {
    description: "Ask a person for a colour.",
    inputSchema: nothing,
    annotations: { readOnly: true, longRunning: true },
    run: async (call) => {
      const { text, ...echoed } = members(call);
      const response_url = `http://${call.host}/user_choice_response`;
      const question = { prompt: "Which colour?", choices: colours, default: 2, response_url };
      await send(call, { ...echoed, type: "user_choice", ...question });
      while (!answers.has(call.id) && isLive(call)) await pause(20);
      const chosen = answers.get(call.id);
      answers.delete(call.id);
      await result(call, (Number.isInteger(chosen) && colours[chosen]) || "Error: no colour was chosen.");
    },
  },
};

const isLive = (call) => live.has(key(call.group_id, call.id));
const forget = (call) => live.delete(key(call.group_id, call.id));
const members = ({ group_id, id, call_id }, text) => ({
  type: "tool_result", group_id, id, text, ...(typeof call_id === "string" && { call_id }),
});

async function result(call, text) {
  await send(call, members(call, text));
  forget(call);
}

async function send(call, message) {
  for (let wait = 200; wait < 10_000; wait *= 2) {
    const status = await post(call.callback_url, message);
    if (status && status < 500) return;
    await pause(wait);
    if (message.type === "subscription_event" && !isLive(call)) return;
  }
}

async function post(url, message) {
  const headers = { "content-type": "application/json" };
  try {
    return (await fetch(url, { method: "POST", headers, body: JSON.stringify(message), redirect: "manual" })).status;
  } catch {
    return 0;
  }
}

function refusal({ operation, arguments: given }) {
  if (!Object.hasOwn(tools, operation)) return `Error: unknown operation ${JSON.stringify(operation)}.`;
  const names = Object.keys(tools[operation].inputSchema.properties);
  if (given === null || typeof given !== "object" || Array.isArray(given)) return "Error: arguments must be an object.";
  for (const name of names) if (!Number.isSafeInteger(given[name])) return `Error: ${name} must be an integer.`;
  const extra = Object.keys(given).find((name) => !names.includes(name));
  return extra === undefined ? "" : `Error: there is no argument ${JSON.stringify(extra)}.`;
}

const paths = {
  "/invoke": (call, host) => {
    live.set(key(call.group_id, call.id), Object.assign(call, { host }));
    const refused = refusal(call);
    return { after: () => (refused ? result(call, refused) : tools[call.operation].run(call)) };
  },
  "/cancel_tool_call": ({ thread_id, tool_call_id }) => ({ after: () => live.delete(key(thread_id, tool_call_id)) }),
  "/close_thread": ({ thread_id }) => ({
    after: () => [...live].forEach(([at, call]) => call.group_id === thread_id && live.delete(at)),
  }),
  "/user_choice_response": ({ id, selected }) => ({
    after: () => {
      const open = [...live.values()].some((call) => call.id === id);
      if (open && !answers.has(id)) answers.set(id, selected);
    },
  }),
  "/tool_call_status": ({ thread_id, tool_call_id }) => ({ body: { alive: live.has(key(thread_id, tool_call_id)) } }),
};

const server = createServer(async (request, response) => {
  const answer = (status, body) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(body === undefined ? undefined : JSON.stringify(body));
  };
  if (request.method === "GET" && request.url === "/.well-known/rap-toolset") {
    const listed = Object.entries(tools).map(([name, { run, ...told }]) => ({ name, ...told }));
    return answer(200, { name: "node", endpoint: `http://${request.headers.host}/invoke`, tools: listed });
  }
  if (TOKEN && request.headers.authorization !== `Bearer ${TOKEN}`) return answer(401);
  if (request.method !== "POST" || !Object.hasOwn(paths, request.url)) return answer(404);
  try {
    let text = "";
    for await (const chunk of request.setEncoding("utf8")) if ((text += chunk).length > LARGEST_BODY) return answer(413);
    const { after, body } = paths[request.url](JSON.parse(text), request.headers.host);
    if (after) response.on("finish", () => setImmediate(after));
    answer(200, body);
  } catch {
    answer(400);
  }
});
server.listen(0, "127.0.0.1", () => console.log(JSON.stringify({ port: server.address().port })));
