/** The time in which the engine makes a container or its image: it has limits of its own, beside those of the start. */
import type { ContainerActorState } from './state.ts';

type Making = Pick<ContainerActorState, 'makingSince' | 'isBuilding' | 'triedSince'>;

/** The engine makes the container from now on, or its image. */
export function beginMaking(state: Making, isBuilding: boolean, now: number): void {
  endMaking(state, now);
  state.makingSince = now;
  state.isBuilding = isBuilding;
}

/** The time in which the engine made the container or its image is no time of the start. */
export function endMaking(state: Making, now: number): void {
  if (state.makingSince !== undefined && state.triedSince !== undefined) state.triedSince += now - state.makingSince;
  state.makingSince = undefined;
  state.isBuilding = false;
}
