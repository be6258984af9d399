// The way to the server: the browser's own requests, or, inside Cockpit, a channel of Cockpit to the daemon's unix socket. There the daemon
// takes the user from the kernel: it is the user of the Cockpit session.

export type Answer = { status: number; text: string };
export type Source = { close(): void };
export type Ear = {
  /** The server answers, at first and after each break. */
  opened(): void;
  message(name: string, data: string): void;
  broken(refused: boolean): void;
};
type Way = {
  ask(method: string, path: string, headers: Record<string, string>, body: string | undefined, patience_ms: number): Promise<Answer>;
  listen(path: string, ear: Ear): Source;
};

const NAMES = ["state", "beat", "event", "reset"];
/** Cockpit's index.html may name another. */
const SOCKET = document.querySelector<HTMLMetaElement>('meta[name="stria-socket"]')?.content ?? "/run/stria/stria.api";
/** The stream beats each second. */
const SILENCE_MS = 5000;
/** A stream has its first message within this, also from a machine that is busy. */
const OPENS_MS = 15_000;
const AGAIN_MS = 1000;

const browser: Way = {
  async ask(method, path, headers, body, patience_ms) {
    const signal = AbortSignal.timeout(patience_ms);
    const answer = await fetch(path, { method, headers, body, credentials: "same-origin", cache: "no-store", signal });
    return { status: answer.status, text: await answer.text() };
  },
  listen(path, ear) {
    let source: EventSource | null = null;
    let timer = 0;
    let opened = 0;
    // An EventSource only receives, so it does not notice that the server is gone if the connection was not closed. A silence
    // counts as its end.
    const wait = (ms: number) => {
      clearTimeout(timer);
      timer = window.setTimeout(open, ms);
    };
    const open = () => {
      source?.close();
      const own = (source = new EventSource(path));
      let is_again = opened++ > 0;
      wait(OPENS_MS);
      for (const name of NAMES) {
        own.addEventListener(name, (message) => {
          wait(SILENCE_MS);
          ear.message(name, (message as MessageEvent<string>).data);
          // A new EventSource cannot name the last event that the old one had.
          if (is_again) ear.message("reset", "{}");
          is_again = false;
        });
      }
      own.onopen = () => ear.opened();
      own.onerror = () => {
        const is_refused = own.readyState === EventSource.CLOSED;
        if (is_refused) clearTimeout(timer);
        else wait(OPENS_MS);
        ear.broken(is_refused);
      };
    };
    open();
    return { close: () => (clearTimeout(timer), source?.close()) };
  },
};

/** The error of cockpit.js for a failed request: the server's status, or the problem of the channel. */
type Told = { status?: number; problem?: string };
/** Problems of a channel for which waiting does not help: the socket refuses this user, or no daemon listens on it. */
const CLOSED: Partial<Record<string, Closed["kind"]>> = { "access-denied": "no_access", "not-found": "no_daemon" };

/** The request did not reach the server. */
export class Closed extends Error {
  readonly kind: "no_access" | "no_daemon";
  constructor(kind: Closed["kind"]) {
    super(kind);
    this.kind = kind;
  }
}

/** The part of cockpit.js that is used. A request is a promise that also tells of its head and, piece by piece, of its body. */
type Request = Promise<string> & {
  response(take: (status: number) => void): Request;
  stream(take: (text: string) => void): Request;
  close(problem?: string): void;
};
type Cockpit = {
  http(endpoint: { unix: string; superuser?: "try" }): {
    request(options: { method: string; path: string; headers: Record<string, string>; body: string }): Request;
  };
};

/** The messages of a stream of Server-Sent Events; what is not yet whole is kept for the next piece. */
export function messages(take: (name: string, data: string, id: string | null) => void): (piece: string) => void {
  let rest = "";
  return (piece) => {
    const blocks = (rest + piece).replace(/\r/g, "").split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const field = (key: string) =>
        block
          .split("\n")
          .filter((line) => line.startsWith(`${key}:`))
          .map((line) => line.slice(key.length + 1).replace(/^ /, ""));
      const data = field("data");
      if (data.length > 0) take(field("event")[0] ?? "message", data.join("\n"), field("id")[0] ?? null);
    }
  };
}

export function in_cockpit(cockpit: Cockpit): Way {
  // The user's own rights are tried first with those that Cockpit has gained for him.
  const client = () => cockpit.http({ unix: SOCKET, superuser: "try" });
  const local = { host: "localhost" };
  return {
    ask(method, path, headers, body, patience_ms) {
      return new Promise((resolve, reject) => {
        let status = 0;
        const request = client().request({ method, path, headers: { ...headers, ...local }, body: body ?? "" });
        const timer = setTimeout(() => (request.close("timeout"), reject(new Error("no answer"))), patience_ms);
        request.response((told) => (status = told));
        request.then(
          (text) => (clearTimeout(timer), resolve({ status: status || 200, text })),
          (error: unknown, text?: string) => {
            clearTimeout(timer);
            // A refusal of the server is an answer. Anything else is a silence, or a socket that Cockpit cannot reach.
            const { status: refused, problem } = error as Told;
            const told = refused ?? status;
            if (told) resolve({ status: told, text: text ?? "" });
            else reject(problem && CLOSED[problem] ? new Closed(CLOSED[problem]) : error);
          },
        );
      });
    },
    listen(path, ear) {
      let request: Request | null = null;
      let last: string | null = null;
      let timer = 0;
      // As an EventSource does: what broke is opened again; what was refused is not. A channel does not always tell that its other end is
      // gone, so silence counts as an end as well.
      const open = () => {
        const headers: Record<string, string> = { ...local, accept: "text/event-stream", ...(last === null ? {} : { "last-event-id": last }) };
        const own = (request = client().request({ method: "GET", path, headers, body: "" }));
        const again = (after_ms: number) => {
          if (request !== own) return;
          clearTimeout(timer);
          timer = window.setTimeout(() => {
            request = null;
            own.close("timeout");
            open();
          }, after_ms);
        };
        const read = messages((name, data, id) => {
          last = id ?? last;
          if (NAMES.includes(name)) ear.message(name, data);
        });
        let is_open = false;
        own.stream((piece) => {
          if (!is_open) ear.opened();
          is_open = true;
          again(SILENCE_MS);
          read(piece);
        });
        const broke = (error?: Told) => {
          if (request !== own) return;
          const is_refused = !!error?.status || CLOSED[error?.problem ?? ""] !== undefined;
          if (is_refused) clearTimeout(timer);
          ear.broken(is_refused);
          if (!is_refused) again(AGAIN_MS);
        };
        own.then(() => broke(), broke);
        again(SILENCE_MS);
      };
      open();
      return {
        close: () => {
          const own = request;
          request = null;
          clearTimeout(timer);
          own?.close();
        },
      };
    },
  };
}

const cockpit = (window as { cockpit?: Cockpit }).cockpit;
/** True inside Cockpit, whose server has no files of the daemon. */
export const is_cockpit = cockpit !== undefined;
export const way: Way = cockpit ? in_cockpit(cockpit) : browser;
