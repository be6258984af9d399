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
  listen: (path, ear) => (navigator.locks && window.BroadcastChannel ? shared(path, ear) : direct(path, ear)),
};

function direct(path: string, ear: Ear): Source {
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
}

/** The tab that has the stream says so this often, also while the server is silent. */
const PULSE_MS = 1000;
type Told = { name: string; data: string; at: number } | "pulse" | "who" | "refused";

/**
 * One stream for all tabs of this browser: it opens six connections to a server at most, and a seventh tab would wait for ever. The tab that
 * holds the lock has the stream, and passes on what it hears as it hears it; nothing is kept, so nothing old is passed on. A new tab
 * asks, and the stream is opened anew, which begins with the state. When the tab closes, the next one gets the lock. A tab that the browser
 * has put to sleep says nothing: then a tab that is seen takes the lock from it.
 */
function shared(path: string, ear: Ear): Source {
  const name = `stria ${path}`;
  const channel = new BroadcastChannel(name);
  const ended = new AbortController();
  let own: Source | null = null;
  let has_heard = false;
  let told_at = Date.now();
  const hear = (name: string, data: string) => {
    // As a stream that opens: the reader's role may have changed.
    if (!has_heard) ear.opened();
    has_heard = true;
    ear.message(name, data);
  };
  const post = (told: Told) => channel.postMessage(told);
  const open = () => {
    own?.close();
    // Events of the time between are not in a new stream.
    let is_next = has_heard;
    own = direct(path, {
      opened: () => (has_heard || ear.opened(), (has_heard = true)),
      message(name, data) {
        const parts: [string, string][] = is_next ? [[name, data], ["reset", "{}"]] : [[name, data]];
        is_next = false;
        for (const [name, data] of parts) {
          post({ name, data, at: Date.now() });
          hear(name, data);
        }
      },
      broken(refused) {
        if (refused) post("refused");
        ear.broken(refused);
      },
    });
  };
  const lead = () =>
    new Promise<void>((resolve) => {
      ended.signal.addEventListener("abort", () => resolve());
      if (!ended.signal.aborted) open();
    });
  const wait = () => navigator.locks.request(name, { signal: ended.signal }, lead).catch(yielded);
  // Another tab has taken the lock, or this one has ended.
  const yielded = () => {
    own?.close();
    own = null;
    told_at = Date.now();
    if (!ended.signal.aborted) void wait();
  };
  const steal = () => navigator.locks.request(name, { steal: true }, lead).catch(yielded);
  channel.onmessage = ({ data: told }: MessageEvent<Told>) => {
    if (told === "who") return own ? open() : undefined;
    told_at = Date.now();
    if (own || told === "pulse") return;
    if (told === "refused") ear.broken(true);
    // What has waited while this tab slept is no news any more.
    else if (Date.now() - told.at < SILENCE_MS) hear(told.name, told.data);
  };
  const timer = window.setInterval(() => {
    if (own) return post("pulse");
    // Of several tabs that are seen one comes first.
    if (!document.hidden && Date.now() - told_at > SILENCE_MS + Math.random() * 2000) {
      told_at = Date.now();
      void steal();
    }
  }, PULSE_MS);
  void wait();
  post("who");
  return {
    close() {
      ended.abort();
      clearInterval(timer);
      own?.close();
      own = null;
      channel.close();
    },
  };
}

/** The error of cockpit.js for a failed request: the server's status, or the problem of the channel. */
type CockpitFault = { status?: number; problem?: string };
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

/** The part of cockpit.js that is used. A request is a promise that also gives its head and, piece by piece, its body. */
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
            const { status: refused, problem } = error as CockpitFault;
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
        const broke = (error?: CockpitFault) => {
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
