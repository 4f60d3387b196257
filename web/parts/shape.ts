/** States of the platform as the shapes and words that stand for them. */
import type { Container } from '../../client/index.ts';
import { t } from '../text/text.ts';
import type { StatusShape } from './status.tsx';

const SHAPES: Readonly<Record<Container['status'], StatusShape>> = {
  pending: 'waiting',
  initializing: 'starting',
  running: 'running',
  stopped: 'stopped',
  failed: 'failed',
};

type State = Pick<Container, 'status' | 'health'>;

/** With its health, unless all is well. */
export function containerShape({ status, health }: State): StatusShape {
  if (status !== 'running') return SHAPES[status];
  return health === 'unhealthy' ? 'warn' : health === 'starting' ? 'starting' : SHAPES.running;
}

export function containerWord({ status, health }: State): string {
  if (status !== 'running') return t.status[status];
  return health === 'unhealthy' || health === 'starting' ? t.health.states[health] : t.status.running;
}
