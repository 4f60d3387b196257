/** Another name, and other settings of the workload; and what these are. */
import { getSettings, updateContainer } from '../../../proto/compute/endpoints.ts';
import { Refusal } from '../../../proto/errors.ts';
import { audit } from '../../../storage/audit.ts';
import { containerById, setName, setRestart } from '../../../storage/compute/containers.ts';
import { NO_SETTINGS, putSettings, settingsOf } from '../../../storage/compute/settings.ts';
import { fenced } from '../../../storage/fenced.ts';
import { auditEntry } from '../../service/audit.ts';
import { type Handler, handler } from '../../service/dispatch.ts';
import type { ComputeDeps } from '../deps.ts';
import { containerView, settingsView } from '../views.ts';
import { changedSettings, newsOfSettings, refuseCommand } from '../workload-rules.ts';
import type { ContainerReconciler } from './reconciler.ts';
import { isStarting } from './rules.ts';
import { type ActiveContainer, ownedRow, withProgress } from './state.ts';

/** The handlers. What is so already changes nothing, and restarts nothing. */
export function updateHandlers(
  deps: ComputeDeps,
  reconciler: Pick<ContainerReconciler, 'onSettingsChanged'>,
): readonly Handler<ActiveContainer>[] {
  const { db, sealKey } = deps;
  return [
    handler(updateContainer, async ({ state, ctx }: ActiveContainer, call) => {
      const { id, name: before } = ownedRow(state, call);
      const { name = before, ...change } = call.body;
      const isChange = Object.keys(change).length > 0;
      const written = await fenced(db, state.lease, async (tx) => {
        if (name !== before) {
          await setName(tx, id, name);
          await audit(tx, auditEntry(call, 'container.rename', id, { name, before }));
        }
        const settings = isChange ? ((await settingsOf(tx, id, sealKey)) ?? NO_SETTINGS) : NO_SETTINGS;
        const wanted = changedSettings(settings, change);
        refuseCommand(state.row.image, wanted);
        const news = newsOfSettings(settings, wanted);
        if (news === undefined && name === before) return undefined;
        const row = await containerById(tx, id);
        if (row === undefined || row.desired === 'deleted') throw new Refusal('not_found');
        if (news === undefined) return row;
        await putSettings(tx, id, wanted, sealKey);
        const restarted = isStarting(row);
        await audit(tx, auditEntry(call, 'container.settings', id, { ...news, restarted }));
        return restarted ? await setRestart(tx, id) : row;
      });
      if (written !== undefined) await reconciler.onSettingsChanged(state, ctx, written);
      return containerView(withProgress(state.row, state.progress), deps);
    }),

    handler(getSettings, async ({ state }: ActiveContainer, call) => {
      const { id } = ownedRow(state, call);
      return settingsView((await settingsOf(db, id, sealKey)) ?? NO_SETTINGS);
    }),
  ];
}
