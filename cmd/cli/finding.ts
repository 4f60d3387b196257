/** One thing that `troupe doctor` looked at. `how` says how to get it, when it is missing. */
export interface Finding {
  readonly name: string;
  readonly ok: boolean;
  /** Troupe runs without it. */
  readonly optional?: boolean;
  readonly what: string;
  readonly how?: string;
}
