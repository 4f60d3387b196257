/** An image registry of this machine that has a name outside, and is asked over loopback here. */
export interface LocalRegistry {
  /** As images name it: `registry.example.com`. */
  readonly host: string;
  /** Where it is asked from this machine, over plain HTTP: `127.0.0.1:7006`. */
  readonly address: string;
}
