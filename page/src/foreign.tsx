// What other machines and programs left on the drives here, and the way to take it.
import { useState } from "preact/hooks";
import { level_name } from "./format.ts";
import { arrays } from "./live.ts";
import { Act, Refused, Sign, useLoaded } from "./parts.tsx";
import { open_plan } from "./plan.tsx";
import { Said } from "./said.tsx";
import * as server from "./server.ts";
import type { ForeignArray } from "./types.ts";
import { t } from "./words.ts";

export function Foreign() {
  const known = arrays.value.map((array) => array.uuid).join();
  const { value, error } = useLoaded(server.foreign, [known]);
  if (!value) return <Refused error={error} />;
  if (value.arrays.length === 0 && value.firmware.length === 0) return null;
  return (
    <section class="card">
      <h2>{t("foreign")}</h2>
      <p class="soft">{t("foreign_means")}</p>
      {value.arrays.map((array) => (
        <Import key={array.uuid} array={array} />
      ))}
      <ul class="plain-list">
        {value.firmware.map((member) => (
          <li key={member.path}>
            <Sign name="notice" /> <span class="path">{member.path}</span>{" "}
            <Said text={member.reason} said={member.reason_said} />. <Said text={member.remedy} said={member.remedy_said} />.
          </li>
        ))}
      </ul>
    </section>
  );
}

function Import({ array }: { array: ForeignArray }) {
  const [name, set_name] = useState(array.clash ? "" : array.name);
  const [read_only, set_read_only] = useState(false);
  const show = () => open_plan({ action: "import", array: array.uuid, name, read_only, ublk: false });
  return (
    <div class="job">
      <h3>{array.name}</h3>
      <p class="soft">
        {level_name(array.level)} · {array.from_here ? t("from_here") : array.host ? t("from_host", { host: array.host }) : t("from_nowhere")} · <span class="mono">{array.uuid}</span>
      </p>
      <p lang="en">{array.state}</p>
      <p class="soft path">{array.drives.join(", ")}</p>
      {array.starts && (
        <form class="rename" onSubmit={(event) => (event.preventDefault(), name !== "" && show())}>
          <label>
            {t("name_here")}
            <input value={name} onInput={(event) => set_name(event.currentTarget.value)} autocomplete="off" spellcheck={false} />
          </label>
          <label class="check">
            <input type="checkbox" checked={read_only} onChange={(event) => set_read_only(event.currentTarget.checked)} /> {t("import_read_only")}
          </label>
          <Act role="admin" busy={name === ""} onClick={show}>
            {t("act_import")}…<span class="hidden"> {array.name}</span>
          </Act>
        </form>
      )}
    </div>
  );
}
