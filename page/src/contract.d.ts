export interface components {
  schemas: {
    Who: {
      name: string;
      role: components["schemas"]["Role"];
      via: components["schemas"]["Via"];
      csrf?: string | null;
      expires_ms?: number | null;
    };
    About: {
      version: string;
      api: number;
      machine: string;
      boot: string;
      time_ms: number;
      user: components["schemas"]["Who"];
    };
    Login: {
      token: string;
    };
    MatterView: {
      array: string;
      urgency: components["schemas"]["Urgency"];
      what: string;
      means: string;
      action: string;
      avoid: string;
      since_ms?: number | null;
      drives: (string)[];
      remedies: (components["schemas"]["Action"])[];
    };
    Summary: {
      urgency: components["schemas"]["Urgency"];
      sentence: string;
      matters: (components["schemas"]["MatterView"])[];
      well: (string)[];
    };
    Task: {
      array: string;
      kind: string;
      done_bytes: number;
      total_bytes: number;
      bytes_per_s: number;
      left_s?: number | null;
      held_bytes_per_s?: number | null;
      mismatch_sectors: number;
    };
    ClientRate: {
      peer: string;
      requests_per_s: number;
      read_bytes_per_s: number;
      written_bytes_per_s: number;
      in_flight: number;
    };
    MemberRate: {
      path: string;
      reads_per_s: number;
      writes_per_s: number;
      read_bytes_per_s: number;
      written_bytes_per_s: number;
    };
    Rates: {
      over_ms: number;
      total: components["schemas"]["ClientRate"];
      clients: (components["schemas"]["ClientRate"])[];
      members: (components["schemas"]["MemberRate"])[];
    };
    ArrayEntry: {
      name: string;
      uuid: string;
      state: components["schemas"]["AdoptedState"];
      text: string;
      drives: (string)[];
      again_in_s?: number | null;
      view?: components["schemas"]["ArrayView"] | null;
      tasks: (components["schemas"]["Task"])[];
      rates?: components["schemas"]["Rates"] | null;
      slow: (components["schemas"]["SlowMember"])[];
    };
    DriveMembership: {
      array: string;
      uuid: string;
      served: boolean;
      slot?: number | null;
      role?: string | null;
    };
    DrivePage: {
      path: string;
      by_id?: string | null;
      kind?: string | null;
      model?: string | null;
      serial?: string | null;
      size_bytes?: number | null;
      carries: (string)[];
      member?: components["schemas"]["DriveMembership"] | null;
      users: (string)[];
      free: boolean;
      error?: string | null;
      health?: components["schemas"]["DriveHealth"] | null;
      health_read_at_s?: number | null;
      health_error?: string | null;
    };
    CreateAction: {
      name: string;
      level: string;
      drives: (string | null)[];
      spares?: (string)[];
      strip_bytes?: number | null;
      layout?: string | null;
      spans?: number | null;
      member_bytes?: number | null;
      bitmap?: boolean;
      log?: boolean;
      integrity?: boolean;
      assume_clean?: boolean;
      ublk?: boolean;
    };
    Extent: {
      start_bytes: number;
      length_bytes: number;
    };
    DriveWrite: {
      drive: string;
      identity?: string | null;
      what: string;
      extents: (components["schemas"]["Extent"])[];
      loses?: string | null;
    };
    Forecast: {
      size_bytes: number;
      losses_survived: number;
      strip_bytes?: number | null;
    };
    Plan: {
      action: components["schemas"]["Action"];
      title: string;
      writes: (components["schemas"]["DriveWrite"])[];
      loses: (string)[];
      warnings: (string)[];
      forecast?: components["schemas"]["Forecast"] | null;
      role: components["schemas"]["Role"];
      confirm?: string | null;
    };
    PlanOffer: {
      token: string;
      expires_ms: number;
      plan: components["schemas"]["Plan"];
    };
    JobRequest: {
      token: string;
      confirm?: string | null;
    };
    Job: {
      id: number;
      action: components["schemas"]["Action"];
      title: string;
      by: string;
      state: components["schemas"]["JobState"];
      text: string;
      task?: components["schemas"]["Task"] | null;
      started_ms: number;
      ended_ms?: number | null;
    };
    EventPage: {
      events: (components["schemas"]["EventView"])[];
      more: boolean;
    };
    State: {
      boot: string;
      time_ms: number;
      summary: components["schemas"]["Summary"];
      arrays: (components["schemas"]["ArrayEntry"])[];
      jobs: (components["schemas"]["Job"])[];
      alarms: (components["schemas"]["StandingView"])[];
    };
    ConfigText: {
      text: string;
      tag: string;
    };
    ConfigVerdict: {
      good: boolean;
      text: string;
    };
    Told: {
      message: string;
    };
    ServiceView: {
      version: string;
      pid: number;
      arrays: (string)[];
    };
    AdoptedView: {
      name: string;
      uuid: string;
      state: components["schemas"]["AdoptedState"];
      text: string;
      drives: (string)[];
      again_in_s?: number | null;
    };
    DriveRequest: {
      path: string;
      plugged_in?: boolean;
    };
    StartRequest: {
      force?: boolean;
    };
    ArrayView: {
      name: string;
      full_name: string;
      uuid: string;
      level: string;
      layout: string;
      strip_bytes?: number | null;
      strip_reason?: string | null;
      size_bytes: number;
      health: components["schemas"]["HealthView"];
      state: string;
      silent_s?: number | null;
      clean: boolean;
      read_only: boolean;
      unreplayed?: string | null;
      trim_zeroes?: boolean;
      paused: boolean;
      members: (components["schemas"]["MemberView"])[];
      missing_slots: (number)[];
      spans: (components["schemas"]["ArrayView"])[];
      sweep?: components["schemas"]["SweepView"] | null;
      resync_pending: boolean;
      mismatch_sectors?: number | null;
      mismatch_repaired?: boolean;
      losses_survived?: number;
      headline?: string;
      bitmap?: components["schemas"]["BitmapView"] | null;
      log?: components["schemas"]["LogView"] | null;
      in_flight: number;
      events: number;
      created_s: number;
      exports: (string)[];
      block_device?: string | null;
      attached?: (string)[];
      vhost_user?: (string)[];
      clients: (components["schemas"]["ClientView"])[];
      lanes?: (components["schemas"]["LaneView"])[];
    };
    MemberView: {
      slot?: number | null;
      path: string;
      role: string;
      direct?: boolean | null;
      direct_note?: string | null;
      way?: string | null;
      model?: string | null;
      serial?: string | null;
      size_bytes?: number | null;
      read_errors: number;
      hedged_reads: number;
      wrong_sectors: number;
      repaired_sectors: number;
      checksums?: components["schemas"]["ChecksumView"] | null;
      read_count: number;
      write_count: number;
      read_bytes: number;
      written_bytes: number;
      no_room?: boolean;
      failure?: string | null;
      read_latency?: components["schemas"]["LatencyView"] | null;
      write_latency?: components["schemas"]["LatencyView"] | null;
      waiting_ms?: number | null;
    };
    LatencyView: {
      median_us: number;
      p99_us: number;
      max_us: number;
      slow_count: number;
    };
    LaneView: {
      setup: string;
      cpu?: number | null;
      polls: boolean;
      clients_on_lane: boolean;
      ring_calls: number;
      ring_entries: number;
      ring_fixed?: number;
    };
    ChecksumView: {
      verified: number;
      learned: number;
      wrong: number;
      mended: number;
    };
    SweepView: {
      kind: string;
      done_bytes: number;
      total_bytes: number;
      bytes_per_s: number;
      eta_s?: number | null;
      held_bytes_per_s?: number | null;
      mismatch_sectors: number;
    };
    LogView: {
      append_count: number;
      record_count: number;
      append_bytes: number;
      early_count?: number;
      full_count?: number;
      replaying: boolean;
      replayed_count: number;
      partial_parity: boolean;
    };
    BitmapView: {
      dirty_count: number;
      bit_count: number;
      chunk_bytes: number;
    };
    ClientView: {
      id: number;
      peer: string;
      tls?: boolean;
      requests: number;
      errors: number;
      read_bytes: number;
      written_bytes: number;
      in_flight: number;
    };
    EventView: {
      sequence: number;
      time_ms: number;
      array: string;
      kind: string;
      text: string;
      sweep?: string | null;
      slot?: number | null;
      mismatch_sectors?: number | null;
    };
    Done: {
      message: string;
      sequence: number;
    };
    StopRequest: {
      force?: boolean;
    };
    MemberRequest: {
      path: string;
    };
    AddRequest: {
      path: string;
      span?: string | null;
      force?: boolean;
    };
    ReplaceRequest: {
      old: string;
      new: string;
      force?: boolean;
    };
    ScrubRequest: {
      repair?: boolean;
      from_bytes?: number;
    };
    SpeedRequest: {
      min_bytes_per_s?: number | null;
      max_bytes_per_s?: number | null;
      latency?: components["schemas"]["LatencyBound"] | null;
    };
    LatencyBound: {
      percentile: number;
      bound_us?: number | null;
    };
    TrimRequest: {
      start_bytes: number;
      length_bytes?: number | null;
      force?: boolean;
    };
    ApiError: {
      kind: components["schemas"]["ApiErrorKind"];
      message: string;
    };
    ErrorBody: {
      error: components["schemas"]["ApiError"];
    };
    Finding: {
      verdict: components["schemas"]["Verdict"];
      sentence: string;
    };
    DriveHealth: {
      source: components["schemas"]["Source"];
      asleep: boolean;
      model?: string | null;
      serial?: string | null;
      firmware?: string | null;
      verdict: components["schemas"]["Verdict"];
      findings: (components["schemas"]["Finding"])[];
      predicts_failure: boolean;
      critical_warning?: number | null;
      temperature_c?: number | null;
      temperature_warning_c?: number | null;
      temperature_critical_c?: number | null;
      wear_percent?: number | null;
      spare_percent?: number | null;
      spare_threshold_percent?: number | null;
      media_errors?: number | null;
      pending_sectors?: number | null;
      reallocated_sectors?: number | null;
      link_errors?: number | null;
      power_on_hours?: number | null;
      power_cycles?: number | null;
      unsafe_shutdowns?: number | null;
      read_bytes?: number | null;
      written_bytes?: number | null;
    };
    PeerLatency: {
      path: string;
      count: number;
      median_us: number;
    };
    SlowMember: {
      path: string;
      median_us: number;
      others_us: number;
    };
    Role: "view" | "operate" | "admin";
    Via: "unix" | "token" | "certificate" | "session";
    Urgency: "well" | "warning" | "critical";
    Action: ({ action: "create" } & components["schemas"]["CreateAction"]) | ({ action: "destroy" } & {
      array: string;
}) | ({ action: "wipe" } & {
      drives: (string)[];
}) | ({ action: "adopt" } & {
      array: string;
      name?: string | null;
      ublk?: boolean;
}) | ({ action: "release" } & {
      array: string;
}) | ({ action: "start" } & {
      array: string;
      force?: boolean;
}) | ({ action: "stop" } & {
      array: string;
      force?: boolean;
}) | ({ action: "rename" } & {
      array: string;
      name: string;
}) | ({ action: "fail" } & {
      array: string;
      drive: string;
}) | ({ action: "remove" } & {
      array: string;
      drive: string;
}) | ({ action: "add" } & {
      array: string;
      drive: string;
      span?: string | null;
}) | ({ action: "replace" } & {
      array: string;
      old: string;
      new: string;
}) | ({ action: "scrub" } & {
      array: string;
      repair?: boolean;
      from_bytes?: number;
}) | ({ action: "cancel_scrub" } & {
      array: string;
}) | ({ action: "pause" } & {
      array: string;
}) | ({ action: "resume" } & {
      array: string;
}) | ({ action: "speed" } & {
      array: string;
      min_bytes_per_s?: number | null;
      max_bytes_per_s?: number | null;
      latency?: components["schemas"]["LatencyBound"] | null;
}) | ({ action: "trim" } & {
      array: string;
      start_bytes: number;
      length_bytes?: number | null;
});
    JobState: "running" | "done" | "failed";
    AdoptedState: "absent" | "waiting" | "served" | "stopped" | "refused";
    HealthView: "optimal" | "degraded" | "failed";
    ApiErrorKind: "not_found" | "invalid" | "refused" | "unsafe" | "failed";
    Source: "nvme" | "smartctl";
    Verdict: "good" | "watch" | "replace";
    StandingView: { event: string; array: string; component: string; text: string; since_s: number };
    Outcome: { channel: string; error: string | null };
  };
}
