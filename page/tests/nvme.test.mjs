// Goal: the bad day on NVMe drives, from another machine: the page by TLS and a token, a drive pulled out under load, found by its serial
// number, replaced and rebuilt.
// Method: `stria daemon` with a block device in the NVMe guest (tests/nvme), whose port is forwarded to a real Chromium here.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { connect } from "node:tls";
import { PATIENCE, axe, browser, open, sticking_out } from "./browser.mjs";
import { STRIA, until } from "./machine.mjs";

const GUEST = new URL("../../tests/nvme/nvme-guest", import.meta.url).pathname;
const CACHE = process.env.NVME_GUEST_CACHE ?? join(homedir(), ".cache/nvme-guest");
const skip = process.env.STRIA_SKIP_NVME ? "STRIA_SKIP_NVME is set" : !existsSync(join(CACHE, "recipe")) && "the NVMe guest is not set up: tests/nvme/nvme-guest setup";

/** The guest: a RAID 5 of three drives with a fourth beside it, a client that writes, and a drive that goes once somebody looks. */
const script = (key, certificate, digest) => `
ip link set lo up; ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up
mkdir -p /etc/stria /var/lib/stria /run/stria
cat >/etc/stria/key.pem <<'END'
${key}END
cat >/etc/stria/cert.pem <<'END'
${certificate}END
echo "page admin ${digest}" >/etc/stria/tokens
cat >/etc/stria/stria.toml <<'END'
[api]
listen = ["0.0.0.0:9443"]
tls-cert = "/etc/stria/cert.pem"
tls-key = "/etc/stria/key.pem"
[mdadm]
conf = "/etc/mdadm.conf"
END
# The kernel numbers controllers as they answer, and a QEMU's drive N has the serial number NVME-N.
drive() { for block in /sys/block/nvme*; do read -r serial <$block/device/serial; [ "$serial" != "NVME-$1" ] || echo "\${block##*/}"; done; }
$P0 create tank --level 5 --assume-clean /dev/$(drive 0) /dev/$(drive 1) /dev/$(drive 2)
$P0 adopt tank --ublk
$P0 daemon --quiet & daemon=$!
tries=0; until [ -b /dev/ublkb0 ]; do tries=$((tries + 1)); [ $tries -lt 600 ]; sleep 0.5; done
(at=0; while dd if=/dev/zero of=/dev/ublkb0 bs=64k count=4 seek=$at oflag=direct 2>/dev/null; do at=$(((at + 5) % 200)); done; echo "the client met an error" >&2) & client=$!
said() { $P0 events | grep -q "$1"; }
until said "began a session"; do sleep 1; done
sleep 3
echo 1 >/sys/block/$(drive 1)/device/device/remove
until said "end of the session"; do sleep 1; done
$P0 status tank
# The stop of the daemon is an error to a client that goes on.
kill $client; wait $client || true
kill $daemon; wait $daemon
`;

/** A port that is free now. */
const free_port = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

test("a pulled NVMe drive is found by its serial number, replaced and rebuilt, over TLS", { skip }, async () => {
  const folder = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "stria-page-nvme-"));
  const path = (name) => join(folder, name);
  const token = randomBytes(24).toString("hex");
  execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", path("key.pem"), "-out", path("cert.pem")], { stdio: "ignore" });
  const digest = createHash("sha256").update(token).digest("hex");
  writeFileSync(path("script.sh"), script(readFileSync(path("key.pem"), "utf8"), readFileSync(path("cert.pem"), "utf8"), digest));
  const drives = [0, 1, 2, 3].map((index) => {
    writeFileSync(path(`drive-${index}.img`), "");
    truncateSync(path(`drive-${index}.img`), 32 << 20);
    return ["--drive", path(`drive-${index}.img`)];
  });
  const port = await free_port();
  const options = ["--kernel", "6.12", "--module", "virtio_net", "--module", "ublk_drv", "--processors", "2", "--forward", `${port}:9443`, "--program", STRIA, "--timeout", String(PATIENCE * 4 / 1000)];
  const guest = spawn(GUEST, ["run", ...options, ...drives.flat(), "--", path("script.sh")], { stdio: ["ignore", "pipe", "pipe"] });
  let told = "";
  for (const stream of [guest.stdout, guest.stderr]) stream.on("data", (data) => (told += data));
  const ended = new Promise((resolve) => guest.once("exit", resolve));
  const chromium = await browser();
  try {
    // The port is open before the guest has a network: only a TLS handshake proves the daemon.
    const answers = () => new Promise((resolve) => {
      assert.equal(guest.exitCode, null, told);
      const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false }, () => (socket.destroy(), resolve(true)));
      socket.setTimeout(2000, () => (socket.destroy(), resolve(false)));
      socket.on("error", () => resolve(false));
      socket.on("close", () => resolve(false));
    });
    // It boots without help of the processor, on a busy machine in more than a minute.
    await until("the guest", answers, 3 * PATIENCE);
    const { page, faults } = await open(chromium, `https://localhost:${port}/`, { ignoreHTTPSErrors: true });
    const dialog = page.getByRole("dialog");
    const press = (name) => page.getByRole("button", { name, exact: true }).click();
    await page.getByLabel("Token").fill("wrong");
    await press("Log in");
    await page.getByRole("alert").waitFor();
    await page.getByLabel("Token").fill(token);
    await press("Log in");
    await page.getByRole("heading", { level: 1, name: /^Array tank has lost a drive/ }).waitFor({ timeout: 2 * PATIENCE });
    const matter = page.locator(".case").first();
    // A busy guest takes its time to look at the drives.
    await matter.getByText("is free and fits").first().waitFor({ timeout: 2 * PATIENCE });
    const said = await matter.innerText();
    for (const words of ["NVME-1", "is free and fits"]) assert.ok(said.includes(words), `${words} in: ${said}`);
    assert.equal(await matter.locator(".bay.marked .bay-slot").innerText(), "1");
    assert.deepEqual([await axe(page), await sticking_out(page)], [[], []]);
    if (process.env.STRIA_PICTURES) await page.screenshot({ path: `${process.env.STRIA_PICTURES}/nvme.png`, fullPage: true });
    await page.getByRole("button", { name: /^Add nvme\S+: show the plan$/ }).click();
    await dialog.getByText("What will be written where").first().click();
    await dialog.getByRole("row", { name: /NVME-3/ }).waitFor();
    await press("Do it");
    await dialog.getByText(/Done at \d/).waitFor({ timeout: 3 * PATIENCE });
    await page.keyboard.press("Escape");
    await page.getByRole("heading", { level: 1, name: /^Array tank is complete again\. The failed drive .+ can be taken out\.$/ }).waitFor();
    await page.getByRole("link", { name: "Drives" }).click();
    await page.getByText("NVME-3").waitFor();
    await page.getByRole("link", { name: "Settings" }).click();
    await press("Log out");
    await page.getByLabel("Token").waitFor();
    assert.deepEqual(faults, []);
    assert.equal(await ended, 0, told);
    assert.ok(!told.includes("met an error"), told);
  } catch (error) {
    guest.kill();
    await ended;
    console.error(told);
    throw error;
  } finally {
    guest.kill();
    await chromium.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
