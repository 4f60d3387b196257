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

export function containerShape(status: Container['status']): StatusShape {
  return SHAPES[status];
}

export function containerWord(status: Container['status']): string {
  return t.status[status];
}
