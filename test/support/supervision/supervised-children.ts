import assert from 'node:assert/strict';
import {
  type AnyRef,
  type ChildSpec,
  dispatch,
  type Ref,
  type SupervisorSpec,
  spawn,
  stop,
} from '../../../supervision/index.ts';
import { until } from './system.ts';

/** Children that write down when they start and stop, and crash or stop when told to. */
export class Troupe {
  readonly log: string[] = [];
  private readonly refs = new Map<string, Ref<'crash' | 'stop' | 'escalate'>>();

  spec(id: string, more: Partial<ChildSpec> = {}): ChildSpec {
    return { id, restart: 'permanent', shutdownMs: 1000, start: (parent) => this.spawn(parent, id), ...more };
  }

  spawn(parent: AnyRef, id: string): AnyRef {
    const ref = spawn<undefined, 'crash' | 'stop' | 'escalate'>(
      parent,
      (_, msg, ctx) => {
        if (msg !== 'stop') throw new Error(msg);
        stop(ctx.self);
        return undefined;
      },
      {
        name: id,
        kind: 'member',
        afterStop: () => {
          this.log.push(`-${id}`);
        },
        onCrash: (msg, _error, ctx) => (msg === 'escalate' ? ctx.escalate : ctx.stop),
      },
    );
    this.log.push(`+${id}`);
    this.refs.set(id, ref);
    return ref;
  }

  tell(id: string, msg: 'crash' | 'stop' | 'escalate'): void {
    const ref = this.refs.get(id);
    assert.ok(ref !== undefined);
    dispatch(ref, msg);
  }

  /** What happened since the last call, once it is as long as `expected`. */
  async did(expected: string): Promise<void> {
    const events = expected.split(' ');
    await until(() => this.log.length >= events.length, expected).catch(() => {});
    assert.equal(this.log.splice(0).join(' '), expected);
  }
}

/** The spec of a supervisor named top. */
export const plan = (children: readonly ChildSpec[], more: Partial<SupervisorSpec> = {}): SupervisorSpec => ({
  name: 'top',
  strategy: 'one-for-one',
  intensity: { max: 5, withinMs: 60_000 },
  children,
  ...more,
});
