/** What a change of a container comes to, as pure functions. */
import { isDeepStrictEqual } from 'node:util';
import type { HealthCheck } from '../../../proto/compute/health.ts';
import type { FieldError } from '../../../proto/errors.ts';
import type { Engine } from '../../../proto/ports/engine.ts';
import type { Sizes } from '../../../storage/compute/changes.ts';
import type { ContainerRow } from '../../../storage/compute/containers.ts';

/**
 * What follows for the image. `keep`: nothing. `set`: it is another from now on, since nothing runs that it could be
 * pulled beside. `wait`: it is pulled first. `drop`: the one that waited is not wanted any more.
 */
export type ImageStep = 'keep' | 'set' | 'wait' | 'drop';

type ImageState = Pick<ContainerRow, 'desired' | 'status' | 'image' | 'nextImage'>;

/** The image that a container has once no change waits. */
export function comingImage({ image, nextImage }: Pick<ImageState, 'image' | 'nextImage'>): string | null {
  return nextImage === undefined ? image : nextImage;
}

/** What follows when `wanted` is asked for; undefined: no image is. */
export function imageStep(row: ImageState, wanted: string | null | undefined): ImageStep {
  if (wanted === undefined || wanted === comingImage(row)) return 'keep';
  if (row.desired !== 'running' || row.status !== 'running') return 'set';
  return wanted === row.image ? 'drop' : 'wait';
}

/**
 * What becomes of the way back when a container gets another image or other settings, with this check of its health.
 * `set`: it leads to how the container is now, since that is known to work. `keep`: it stays as it is, if there is one:
 * the change before is not proven either. `drop`: nothing will tell whether the change works.
 */
export function wayBack(
  { desired, status, healthState }: Pick<ContainerRow, 'desired' | 'status' | 'healthState'>,
  health: HealthCheck | null,
  isRestarted = true,
): 'set' | 'keep' | 'drop' {
  if (health === null) return 'drop';
  const isWell = desired === 'running' && status === 'running' && (healthState === null || healthState === 'healthy');
  return isRestarted && isWell ? 'set' : 'keep';
}

/**
 * What is wrong with other sizes, if anything. What a running container uses is counted where they are applied to it as
 * it runs; of storage, wherever it could become smaller at all.
 */
export function sizesProblem(
  row: Sizes & Pick<ContainerRow, 'status'>,
  wanted: Sizes,
  { resizesRunning, shrinksStorage }: Pick<Engine, 'resizesRunning' | 'shrinksStorage'>,
  { memoryBytes, storageBytes }: ReturnType<Engine['usage']>,
): FieldError | undefined {
  const usedMb = Math.ceil(memoryBytes / 2 ** 20);
  const runs = row.status === 'running' || row.status === 'initializing';
  if (wanted.memoryMb < row.memoryMb && runs && resizesRunning && wanted.memoryMb < usedMb)
    return {
      path: 'memory_mb',
      message: `must be at least ${usedMb}, which the container uses now: stop it first, or let it use less`,
    };
  if (wanted.storageGb >= row.storageGb) return undefined;
  if (!shrinksStorage)
    return {
      path: 'storage_gb',
      message: `must be at least ${row.storageGb}: a volume of the cluster can grow, but not become smaller`,
    };
  const usedGb = Math.ceil(storageBytes / 2 ** 30);
  return wanted.storageGb < usedGb
    ? { path: 'storage_gb', message: `must be at least ${usedGb}, which the container uses: delete files first` }
    : undefined;
}

/** A value before and after a change. */
interface Difference {
  readonly before: unknown;
  readonly after: unknown;
}

/** What differs between two sets of values, for the audit trail. */
export function differences(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
): Readonly<Record<string, Difference>> {
  const changed = Object.keys(after).filter((name) => !isDeepStrictEqual(before[name], after[name]));
  return Object.fromEntries(changed.map((name) => [name, { before: before[name], after: after[name] }]));
}
