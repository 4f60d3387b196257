import type { z } from 'zod';
import { jsonOf } from '../../../lib/input.ts';
import { type KubeNaming, labels, RUN_ANNOTATION, SPEC_ANNOTATION } from './naming.ts';
import { type KeptSpec, keptSpecView, type objectView, type Run, runView } from './views.ts';

/** A container that exists: its namespace and what it was asked to be. */
export interface Found {
  readonly id: string;
  readonly userId: string;
  readonly namespace: string;
  readonly spec: KeptSpec;
  /** How far it was when it was last told to start or to stop; undefined: it never ran, or is being started. */
  readonly run: Run | undefined;
  /** Only its data is left. */
  readonly isKept: boolean;
}

/** What a namespace says of its container; undefined when it is not of this installation, or on its way out. */
export function foundOf(naming: KubeNaming, { metadata }: z.output<typeof objectView>): Found | undefined {
  const id = naming.idOf(metadata.labels);
  const spec = parseJson(metadata.annotations[SPEC_ANNOTATION], keptSpecView);
  if (id === undefined || spec === undefined || metadata.deletionTimestamp != null) return undefined;
  const userId = metadata.labels[labels.user] ?? '';
  const run = parseJson(metadata.annotations[RUN_ANNOTATION], runView);
  return { id, userId, namespace: metadata.name, spec, run, isKept: metadata.labels[labels.state] === 'kept' };
}

/** JSON of that shape; undefined for anything else. */
export function parseJson<T>(text: string | undefined, schema: z.ZodType<T>): T | undefined {
  return text === undefined ? undefined : schema.safeParse(jsonOf(text)).data;
}
