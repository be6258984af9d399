// A machine of image files with a real daemon, and a port that reaches its API as `ssh -L` would.
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PATIENCE } from "./browser.mjs";

export const STRIA = process.env.STRIA ?? new URL("../../target/debug/stria", import.meta.url).pathname;
/** A name that does harm where a page takes it for more than text. */
const FOLDER = `<img src=x onerror=alert(1)> "images" & 'more'`;

export class Machine {
  #daemon = null;
  #server = null;
  #open = new Set();
  constructor() {
    this.path = mkdtempSync(join(tmpdir(), "stria-page-"));
    this.images = join(this.path, FOLDER);
    mkdirSync(this.images);
    this.env = { ...process.env, STRIA_CONFIG: join(this.path, "stria.toml"), STRIA_SOCKET: join(this.path, "run.sock"), NO_COLOR: "1" };
    const quoted = (name) => JSON.stringify(join(this.path, name));
    const text = `[daemon]\nblock-devices = false\nsearch = [${JSON.stringify(this.images)}]\nstate = ${quoted("state")}\n\n[mdadm]\nconf = ${quoted("mdadm.conf")}\n\n[api]\ntokens = ${quoted("tokens")}\n`;
    writeFileSync(this.env.STRIA_CONFIG, text);
  }
  /** An empty drive. */
  image(name, bytes = 64 << 20) {
    const path = join(this.images, name);
    writeFileSync(path, "");
    truncateSync(path, bytes);
    return path;
  }
  /** Loses a drive's content under its user, as a drive does that forgets all. */
  lose(path) {
    truncateSync(path, 0);
  }
  stria(...command) {
    return execFileSync(STRIA, command, { env: this.env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  }
  array(name, level, drives) {
    this.stria("create", name, "--level", level, "--assume-clean", ...drives);
    this.stria("adopt", ...drives);
  }
  status(name) {
    // The exit code tells whether all is well.
    const ran = spawnSync(STRIA, ["--json", "status"], { env: this.env, encoding: "utf8" });
    assert.ok(ran.status === 0 || ran.status === 3, ran.stderr);
    return JSON.parse(ran.stdout).find((array) => array.name === name);
  }
  /** Starts the daemon, and waits until it is ready. */
  async start() {
    const daemon = spawn(STRIA, ["daemon", "--quiet"], { env: this.env, stdio: ["ignore", "pipe", "pipe"] });
    let log = "";
    daemon.stderr.on("data", (data) => (log += data));
    await new Promise((resolve, reject) => {
      daemon.stdout.once("data", resolve);
      daemon.once("exit", (code) => reject(new Error(`the daemon ended (${code}) before it was ready: ${log}`)));
    });
    this.#daemon = daemon;
    this.log = () => log;
  }
  /** Ends it: by `SIGKILL` as a crash does. */
  async end(signal = "SIGTERM") {
    const daemon = this.#daemon;
    if (!daemon) return;
    this.#daemon = null;
    const ended = new Promise((resolve) => daemon.once("exit", resolve));
    daemon.kill(signal);
    await ended;
  }
  /** The page's address. */
  async url() {
    if (!this.#server) {
      const socket = this.env.STRIA_SOCKET.replace(/sock$/, "api");
      this.#server = createServer((client) => {
        const server = connect(socket);
        for (const [one, other] of [[client, server], [server, client]]) {
          this.#open.add(one);
          one.on("error", () => other.destroy());
          one.on("close", () => (this.#open.delete(one), other.destroy()));
          one.pipe(other);
        }
      });
      await new Promise((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    }
    return `http://localhost:${this.#server.address().port}/`;
  }
  /** Clients that read and write an array at random places until `stop`, which fails if one of them met an error. */
  load(name) {
    const uri = this.status(name).exports[0];
    const program = `
import nbd, random, sys, time
h = nbd.NBD()
h.connect_uri(sys.argv[1])
size = h.get_size() // 4096
written = {}
begun, count = time.time(), 0
while True:
    count += 1
    if time.time() - begun >= 0.1:
        print(int(begun * 1000), count, flush=True)
        begun, count = time.time(), 0
    block = random.randrange(size)
    if block in written and random.random() < 0.5:
        assert h.pread(4096, block * 4096) == bytes([written[block]]) * 4096, "wrong bytes"
    else:
        written[block] = random.randrange(256)
        h.pwrite(bytes([written[block]]) * 4096, block * 4096)
`;
    const client = spawn("/usr/bin/python3", ["-c", program, uri], { stdio: ["ignore", "pipe", "pipe"] });
    let log = "";
    let counts = "";
    client.stdout.on("data", (data) => (counts += data));
    client.stderr.on("data", (data) => (log += data));
    return {
      /** The requests that it counted itself in tenths of a second that began between these times. */
      requests: (from_ms, to_ms) => counts.split("\n").slice(0, -1).map((line) => line.split(" ").map(Number)).filter(([at]) => at >= from_ms && at < to_ms).reduce((sum, [, count]) => sum + count, 0),
      stop: async () => {
        assert.equal(client.exitCode, null, `the client ended by itself: ${log}`);
        const ended = new Promise((resolve) => client.once("exit", resolve));
        client.kill("SIGKILL");
        await ended;
      },
    };
  }
  async close() {
    await this.end("SIGKILL");
    for (const socket of this.#open) socket.destroy();
    await new Promise((resolve) => (this.#server ? this.#server.close(resolve) : resolve()));
    rmSync(this.path, { recursive: true, force: true });
  }
}

/** Waits for a condition that no screen shows. */
export async function until(what, is_so, patience = PATIENCE) {
  const end = Date.now() + patience;
  while (!(await is_so())) {
    assert.ok(Date.now() < end, `waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
