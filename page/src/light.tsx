// The light of a drive, which shows it among its neighbours. Few machines show beforehand whether they have one: the
// server answers that when it is to be switched.
import { useState } from "preact/hooks";
import { job_of } from "./live.ts";
import { type Fault, Act, Refused } from "./parts.tsx";
import { JobText } from "./plan.tsx";
import * as server from "./server.ts";
import type { Drive, Job } from "./types.ts";
import { t } from "./words.ts";

export function Light({ drive }: { drive: Drive }) {
  const [job, set_job] = useState<Job | null>(null);
  const [error, set_error] = useState<Fault | null>(null);
  // A file has none.
  if (drive.kind === "file" || drive.error) return null;
  const live = job && (job_of(job.id) ?? job);
  const turn = async (on: boolean) => {
    set_error(null);
    try {
      set_job(await server.act({ action: "locate", drive: drive.path, on }));
    } catch (reason) {
      set_error(reason as Fault);
    }
  };
  return (
    <>
      <div class="buttons">
        {[true, false].map((on) => (
          <Act key={String(on)} busy={live?.state === "running"} onClick={() => void turn(on)}>
            {t(on ? "light_on" : "light_off")}
            <span class="hidden"> {drive.path}</span>
          </Act>
        ))}
      </div>
      <Refused error={error} />
      <p role="status" class={live?.state === "failed" ? "bad" : "soft"}>
        {live?.state === "done" && live.action.action === "locate" ? t(live.action.on ? "light_is_on" : "light_is_off") : live && live.state !== "running" ? <JobText job={live} /> : ""}
      </p>
    </>
  );
}
