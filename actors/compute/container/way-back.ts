/** The way back: a container whose change did not lead to a healthy one gets its image and its settings of before. */

import { audit } from '../../../storage/audit.ts';
import type { ContainerRow } from '../../../storage/compute/containers.ts';
import { noteFailedChange } from '../../../storage/compute/failed-changes.ts';
import { takeFormer } from '../../../storage/compute/health.ts';
import { tellCompute } from '../../../storage/compute/news.ts';
import { formerSettingsOf, NO_SETTINGS, putSettings, settingsOf } from '../../../storage/compute/settings.ts';
import { fenced } from '../../../storage/fenced.ts';
import { append } from '../../../storage/outbox.ts';
import { platformEntry } from '../../service/audit.ts';
import type { ComputeDeps } from '../deps.ts';
import { imageText, shownImage } from '../image-rules.ts';
import { withSecretsOf } from '../workload-rules.ts';
import { CheckAnswers, type Evidence } from './evidence.ts';
import { changeGivenUpNotice } from './notices.ts';
import { noteGivenUp } from './revisions.ts';
import type { ContainerActorState } from './state.ts';

/**
 * Writes the way back of a container that has one, with its notice and its audit entry, and counts its crashes anew.
 * Secrets stay as they are. A change that waits for its image is dropped. `why`: what stood in the way of the change;
 * `evidence`: of the one that failed.
 * Resolves with the row; undefined when there is no way back any more. Rejects with StorageError, or PlacementError
 * `fenced`.
 */
export async function goBack(
  deps: ComputeDeps,
  state: ContainerActorState,
  why: string,
  evidence: Evidence,
): Promise<ContainerRow | undefined> {
  const { db, clock, sealKey, log } = deps;
  const { id, image, formerImage = null, nextImage } = state.row;
  const textOf = (one: string | null) => imageText(shownImage({ image: one }, deps));
  const waiting = nextImage === undefined ? undefined : textOf(nextImage);
  const images = { wanted: textOf(image), former: textOf(formerImage), waiting };
  const reason = givenUp(images, why);
  const written = await fenced(db, state.lease, async (tx) => {
    const [former = NO_SETTINGS, present = NO_SETTINGS] = [
      await formerSettingsOf(tx, id, sealKey),
      await settingsOf(tx, id, sealKey),
    ];
    const settings = withSecretsOf(former, present);
    const row = await takeFormer(tx, id, { isChecked: settings.health !== null, reason });
    if (row === undefined) return undefined;
    await putSettings(tx, id, settings, sealKey);
    await noteGivenUp(deps, tx, row, reason);
    const at = new Date(clock.now()).toISOString();
    await noteFailedChange(tx, id, { at, image: images.wanted, reason, ...evidence }, sealKey);
    await append(tx, changeGivenUpNotice(row, clock.now(), reason));
    const detail = {
      why,
      ...(image === row.image ? {} : { image: { before: image, after: row.image } }),
      ...(waiting === undefined ? {} : { dropped: nextImage }),
    };
    await audit(tx, platformEntry(null, 'container.change_given_up', id, detail));
    await tellCompute(tx, { kind: 'status', containerId: id, status: 'pending' });
    return row;
  });
  if (written === undefined) return undefined;
  log.info({ containerId: id, from: image, to: written.image, why }, 'a change of a container was given up');
  state.answers = new CheckAnswers();
  state.crashes = 0;
  state.failures = 0;
  state.problem = undefined;
  state.silentRestarts = 0;
  state.tolerated = undefined;
  return written;
}

/** The images of a way back; `waiting`: that of a change that is dropped with it. */
interface WayBackImages {
  readonly wanted: string;
  readonly former: string;
  readonly waiting: string | undefined;
}

/** What its user reads: that the change was given up, why, and what to do. */
function givenUp({ wanted, former, waiting }: WayBackImages, why: string): string {
  const sentence = /[.!?]$/.test(why) ? why : `${why}.`;
  const kept =
    wanted === former
      ? 'The change of settings was given up, and the container has those of before.'
      : `The change to ${wanted} was given up, and the container has ${former} and the settings of before.`;
  const dropped = waiting === undefined ? '' : ` The change to ${waiting}, which waited for its image, was dropped.`;
  const cause = `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}`;
  return `${kept}${dropped} ${cause} Mend that, and send the change again.`;
}
