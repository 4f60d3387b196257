import { Ask } from './asks.ts';
import type { Meta } from './mailbox.ts';
import { TracedCell } from './traced-cell.ts';

/** An actor of a system that freezes messages. Apart, so that the others pay nothing for it. */
export class FreezingCell extends TracedCell {
  override deliver(msg: unknown): void {
    const { queue, tracer } = this.kind;
    if (tracer !== undefined) {
      super.deliver(msg);
      return;
    }
    queue.wake();
    this.post(msg, queue.ms);
  }

  override post(msg: unknown, meta: Meta): void {
    if (meta instanceof Ask) freezeReplyOf(meta);
    super.post(freeze(msg), meta);
  }
}

function freezeReplyOf(ask: Ask): void {
  const deliver = ask.deliver.bind(ask);
  ask.deliver = (reply) => deliver(freeze(reply));
}

const frozen = new WeakSet<object>();

/** Freezes a value and all plain objects and arrays in it, whatever else they hold; returns it. */
function freeze(value: unknown): unknown {
  const todo: unknown[] = [value];
  while (todo.length > 0) {
    const next = todo.pop();
    if (!isPlain(next) || frozen.has(next)) continue;
    frozen.add(next);
    Object.freeze(next);
    const properties: readonly { readonly value?: unknown }[] = Object.values(Object.getOwnPropertyDescriptors(next));
    for (const property of properties) todo.push(property.value);
  }
  return value;
}

/** Instances of classes have methods that change them: a ref, a map, bytes. */
function isPlain(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  if (Array.isArray(value)) return true;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
