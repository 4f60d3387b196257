/**
 * What was measured of containers before: an hour of every refresh, and a day by the minute, in memory. A series weighs
 * 16 bytes a point, so at most 35 KB.
 */
import type { PodSample } from '../../proto/ports/metrics-source.ts';

/** Seconds between two points of each kind. */
export const FINE_STEP = 5;
export const COARSE_STEP = 60;
const FINE_POINTS = 720;
const COARSE_POINTS = 1440;
/** Of so many containers at most: what comes later has no history until others are forgotten. */
const MAX_SERIES = 2000;
/** A refresh may come a little early, s. */
const EARLY = 0.5;
const FIRST_POINTS = 16;
const WIDTH = 4;

/** Points, oldest first: columns of the same length. */
interface HistoryColumns {
  /** Unix seconds. */
  readonly timestamps: number[];
  /** Thousandths of a core. */
  readonly cpu_usage: number[];
  /** Bytes. */
  readonly memory_usage: number[];
  readonly disk_usage: number[];
}

/** Of what nothing is known. */
export const NOTHING: HistoryColumns = { timestamps: [], cpu_usage: [], memory_usage: [], disk_usage: [] };

/** One measurement. Memory and disk in KiB, which 32 bits hold up to 4 TiB. */
type Point = readonly [seconds: number, cpuMillis: number, memoryKib: number, diskKib: number];

/** The last points, at most `most`. */
class Ring {
  readonly #most: number;
  #values = new Uint32Array(FIRST_POINTS * WIDTH);
  /** Points ever added. */
  #added = 0;

  constructor(most: number) {
    this.#most = most;
  }

  add(point: Point): void {
    const room = this.#values.length / WIDTH;
    if (this.#added === room && room < this.#most) {
      const grown = new Uint32Array(Math.min(this.#most, room * 2) * WIDTH);
      grown.set(this.#values);
      this.#values = grown;
    }
    this.#values.set(point, (this.#added % (this.#values.length / WIDTH)) * WIDTH);
    this.#added += 1;
  }

  since(seconds: number): HistoryColumns {
    const columns: HistoryColumns = { timestamps: [], cpu_usage: [], memory_usage: [], disk_usage: [] };
    const room = this.#values.length / WIDTH;
    for (let at = Math.max(0, this.#added - room); at < this.#added; at++) {
      const [time = 0, cpu = 0, memory = 0, disk = 0] = this.#values.subarray(
        (at % room) * WIDTH,
        (at % room) * WIDTH + WIDTH,
      );
      if (time < seconds) continue;
      columns.timestamps.push(time);
      columns.cpu_usage.push(cpu);
      columns.memory_usage.push(memory * 1024);
      columns.disk_usage.push(disk * 1024);
    }
    return columns;
  }
}

/** What is kept of one container. */
class Series {
  readonly #fine = new Ring(FINE_POINTS);
  readonly #coarse = new Ring(COARSE_POINTS);
  #lastAt = 0;
  /** The minute that is under way: how many points, the sum of their CPU, the most memory, the last disk. */
  #minute = { began: 0, count: 0, cpu: 0, memory: 0, disk: 0 };

  get lastAt(): number {
    return this.#lastAt;
  }

  add(seconds: number, { cpuMillis, memoryBytes, diskBytes }: PodSample): void {
    if (seconds - this.#lastAt < FINE_STEP - EARLY) return;
    this.#lastAt = seconds;
    const [cpu, memory, disk] = [cpuMillis, memoryBytes / 1024, diskBytes / 1024].map(whole);
    const point: Point = [Math.round(seconds), cpu ?? 0, memory ?? 0, disk ?? 0];
    this.#fine.add(point);
    const began = Math.floor(seconds / COARSE_STEP) * COARSE_STEP;
    if (began !== this.#minute.began) this.#endMinute(began);
    const minute = this.#minute;
    minute.count += 1;
    minute.cpu += point[1];
    minute.memory = Math.max(minute.memory, point[2]);
    minute.disk = point[3];
  }

  #endMinute(began: number): void {
    const { count, cpu, memory, disk, began: before } = this.#minute;
    if (count > 0) this.#coarse.add([before, Math.round(cpu / count), memory, disk]);
    this.#minute = { began, count: 0, cpu: 0, memory: 0, disk: 0 };
  }

  columns(step: number, since: number): HistoryColumns {
    return (step === FINE_STEP ? this.#fine : this.#coarse).since(since);
  }
}

const whole = (value: number): number => Math.min(2 ** 32 - 1, Math.max(0, Math.round(value)));

/** The series of all containers, by namespace. */
export class History {
  readonly #series = new Map<string, Series>();
  #forgotAt = 0;

  /** Takes what was measured at `at` (Unix ms). */
  take(pods: readonly PodSample[], at: number): void {
    const seconds = at / 1000;
    if (seconds - this.#forgotAt > COARSE_STEP) this.#forget(seconds);
    for (const pod of pods) {
      let series = this.#series.get(pod.namespace);
      if (series === undefined) {
        if (this.#series.size >= MAX_SERIES || pod.userId === undefined) continue;
        series = new Series();
        this.#series.set(pod.namespace, series);
      }
      series.add(seconds, pod);
    }
  }

  /** Points of a namespace from `since` on (Unix seconds). */
  of(namespace: string, step: number, since: number): HistoryColumns {
    return this.#series.get(namespace)?.columns(step, since) ?? NOTHING;
  }

  #forget(seconds: number): void {
    this.#forgotAt = seconds;
    const oldest = seconds - COARSE_POINTS * COARSE_STEP;
    for (const [namespace, series] of this.#series) if (series.lastAt < oldest) this.#series.delete(namespace);
  }
}
