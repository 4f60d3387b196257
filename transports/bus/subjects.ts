/**
 * What both buses take and refuse, so that what runs on one runs on the other: subjects, names and sizes. A subject is
 * tokens joined by dots; in a pattern `*` stands for one token, a closing `>` for one or more (NATS documentation,
 * "Subject-Based Messaging").
 */
import { BusError } from '../../proto/ports/bus.ts';

const TOKEN = /^[^\s.*>\0]+$/;
// One pass for each message that is sent: tokens and dots.
const SUBJECT_PATTERN = /^[^\s.*>\0]+(?:\.[^\s.*>\0]+)*$/;
const MAX_SUBJECT_BYTES = 1024;

/** Throws a TypeError unless `subject` may be published to: no wildcards, no empty token, no blank. */
export function checkSubject(subject: string): void {
  if (subject.length > MAX_SUBJECT_BYTES || !SUBJECT_PATTERN.test(subject)) {
    throw new TypeError(`Not a subject: ${JSON.stringify(subject.slice(0, 100))}`);
  }
}

/** Throws a TypeError unless `pattern` is a subject or has wildcards as whole tokens, `>` only at the end. */
export function checkPattern(pattern: string): void {
  const parts = pattern.split('.');
  const fine = parts.every(
    (part, index) => part === '*' || (part === '>' && index === parts.length - 1) || TOKEN.test(part),
  );
  if (!fine || pattern.length > MAX_SUBJECT_BYTES) {
    throw new TypeError(`Not a subject pattern: ${JSON.stringify(pattern.slice(0, 100))}`);
  }
}

/** Whether `subject` falls under `pattern`. */
export function matches(pattern: string, subject: string): boolean {
  const wanted = pattern.split('.');
  const given = subject.split('.');
  for (const [index, part] of wanted.entries()) {
    if (part === '>') return given.length > index;
    if (index >= given.length || (part !== '*' && part !== given[index])) return false;
  }
  return wanted.length === given.length;
}

interface SubjectNode<T> {
  readonly next: Map<string, SubjectNode<T>>;
  readonly values: Set<T>;
}

/** Values under patterns, found by subject. The work grows with the subject's tokens, not with the patterns. */
export class SubjectTree<T> {
  readonly #root: SubjectNode<T> = emptyNode();

  add(pattern: string, value: T): void {
    let node = this.#root;
    for (const part of pattern.split('.')) {
      let next = node.next.get(part);
      if (next === undefined) {
        next = emptyNode();
        node.next.set(part, next);
      }
      node = next;
    }
    node.values.add(value);
  }

  remove(pattern: string, value: T): void {
    const parts = pattern.split('.');
    const path = [this.#root];
    for (const part of parts) {
      const next = path.at(-1)?.next.get(part);
      if (next === undefined) return;
      path.push(next);
    }
    path.at(-1)?.values.delete(value);
    // Empty branches go, so that short-lived subjects leave nothing.
    for (let depth = parts.length; depth > 0; depth--) {
      const node = path[depth];
      const part = parts[depth - 1];
      if (node === undefined || part === undefined || node.values.size > 0 || node.next.size > 0) return;
      path[depth - 1]?.next.delete(part);
    }
  }

  /** All values whose pattern the subject fulfils. */
  find(subject: string): T[] {
    const found: T[] = [];
    collect(this.#root, subject.split('.'), 0, found);
    return found;
  }

  /** Number of nodes below the root. */
  get size(): number {
    return countNodes(this.#root);
  }
}

function emptyNode<T>(): SubjectNode<T> {
  return { next: new Map(), values: new Set() };
}

function collect<T>(node: SubjectNode<T>, parts: readonly string[], depth: number, found: T[]): void {
  const part = parts[depth];
  if (part === undefined) {
    found.push(...node.values);
    return;
  }
  const rest = node.next.get('>');
  if (rest !== undefined) found.push(...rest.values);
  const any = node.next.get('*');
  if (any !== undefined) collect(any, parts, depth + 1, found);
  const exact = node.next.get(part);
  if (exact !== undefined) collect(exact, parts, depth + 1, found);
}

function countNodes<T>(node: SubjectNode<T>): number {
  let count = 0;
  for (const next of node.next.values()) count += 1 + countNodes(next);
  return count;
}

/** Largest payload: a NATS server takes 1 MiB unless it is told otherwise, and an envelope has to fit in. */
export const MAX_PAYLOAD_BYTES = (1 << 20) - 64;

const NAME = /^[A-Za-z0-9_-]{1,200}$/;
// A message id travels in a header line.
const MESSAGE_ID = /^(?! )[^\0\r\n]{1,1024}(?<! )$/;

/** Throws BusError `too_large` for a payload that is more than a message may carry. */
export function checkSize(data: Uint8Array): void {
  if (data.byteLength > MAX_PAYLOAD_BYTES) {
    throw new BusError('too_large', `A message has at most ${MAX_PAYLOAD_BYTES} bytes.`);
  }
}

/** Throws TypeError unless `text` can name a stream or a consumer. */
export function checkName(text: string): void {
  if (!NAME.test(text)) throw new TypeError(`Not a name: ${JSON.stringify(text.slice(0, 100))}`);
}

/** Throws TypeError unless `text` can be a message id. */
export function checkMessageId(text: string): void {
  if (!MESSAGE_ID.test(text)) {
    throw new TypeError('A message id is one line of 1 to 1,024 characters without a space at its ends.');
  }
}
