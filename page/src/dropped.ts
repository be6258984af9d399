// Drives that arrays have dropped. The daemon lists such a drive until it is removed from its array. Then it still has to be pulled. While its
// slot is empty, the reader asks which drive it was: the events know.
import type { ArrayEntry, ArrayView, Drive, Event } from "./types.ts";

export type Dropped = { array: string; slot: number | null; path: string; at_ms: number };

/** The daemon's words: the drive, its slot, and that it was dropped. */
const WORDS = /^(.+?) \((?:slot \d+|a spare)\) was dropped: /s;

/** The latest drop of each drive. */
export function drops_of(events: Event[]): Dropped[] {
  const latest = new Map<string, Dropped>();
  for (const event of events) {
    const path = event.kind === "member_failed" ? WORDS.exec(event.text)?.[1] : undefined;
    if (path === undefined) continue;
    latest.delete(path);
    latest.set(path, { array: event.array, slot: event.slot ?? null, path, at_ms: event.time_ms });
  }
  return [...latest.values()];
}

/** A dropped drive that is still in the machine although no array lists it any more. */
export type Inside = Dropped & { drive: Drive };

/**
 * A drive that has nothing on it may be a new one in the same place. One that an array or another program uses must not be pulled. The others
 * still have the superblock of that array, a damaged one, as a drive that was cut short, or cannot be read.
 */
export function still_inside(drops: Dropped[], drives: Drive[], arrays: ArrayEntry[]): Inside[] {
  return drops.flatMap((drop) => {
    const drive = drives.find((drive) => drive.path === drop.path);
    const entry = arrays.find(({ name, view }) => name === drop.array || (view && has_part(view, drop.array)));
    if (!drive || !entry || drive.free || drive.pool || drive.users.length > 0 || drive.member?.served) return [];
    const is_left = drive.error !== null || (drive.member ? uuids(entry).includes(drive.member.uuid) : drive.carries.some((what) => what.startsWith("md member")));
    return is_left ? [{ ...drop, drive }] : [];
  });
}

const parts = (view: ArrayView): ArrayView[] => [view, ...view.spans.flatMap(parts)];
const has_part = (view: ArrayView, name: string) => parts(view).some((part) => part.name === name);
const uuids = ({ uuid, view }: ArrayEntry) => [uuid, ...(view ? parts(view).map((part) => part.uuid) : [])];
