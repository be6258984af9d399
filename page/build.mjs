// The bundle that the daemon embeds: index.html, page.js, page.css and icon.svg in crates/manage/page; and the index.html for Cockpit.
// The same sources give the same bytes. `--compare`: nothing is written; exit code 1 if the bundle is not what the sources give.
import { build } from "esbuild";
import { readFileSync, writeFileSync, mkdirSync } from "node:fs";
import { gzipSync } from "node:zlib";

const here = (path) => new URL(path, import.meta.url).pathname;
const OUT = (name) => here(`../crates/manage/page/${name}`);
const LIMIT_BYTES = 200 << 10;
const result = await build({
  entryPoints: [here("src/page.tsx"), here("src/page.css")],
  outdir: OUT(""),
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  write: false,
});
const files = new Map(result.outputFiles.map((file) => [file.path.split("/").pop(), Buffer.from(file.contents)]));
for (const name of ["index.html", "icon.svg"]) files.set(name, readFileSync(here(`src/${name}`)));
// Cockpit gives the page its own icon, and the way to the server by its library.
const icon = '<link rel="icon" href="icon.svg" type="image/svg+xml">';
const cockpit = files.get("index.html").toString().replace(icon, '<script src="../base1/cockpit.js"></script>');
const COCKPIT = here("../packaging/cockpit/index.html");
let packed = 0;
for (const bytes of files.values()) packed += gzipSync(bytes, { level: 9 }).length;
console.log(`the bundle: ${files.size} files, ${(packed / 1024).toFixed(1)} KiB compressed`);
if (packed > LIMIT_BYTES) throw new Error(`the bundle is larger than ${LIMIT_BYTES >> 10} KiB compressed`);
if (process.argv.includes("--compare")) {
  const differing = [...files].filter(([name, bytes]) => !bytes.equals(readFileSync(OUT(name)))).map(([name]) => name);
  if (readFileSync(COCKPIT, "utf8") !== cockpit) differing.push("packaging/cockpit/index.html");
  if (differing.length > 0) {
    console.error(`crates/manage/page is not what page/src gives (${differing.join(", ")}): run \`npm run build\` in page/ and commit the result`);
    process.exit(1);
  }
} else {
  mkdirSync(OUT(""), { recursive: true });
  for (const [name, bytes] of files) writeFileSync(OUT(name), bytes);
  writeFileSync(COCKPIT, cockpit);
}
