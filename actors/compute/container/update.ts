/** Another name, and other settings of the workload; and what these are. */
import { getSettings, updateContainer } from '../../../proto/compute/endpoints.ts';
import { Refusal } from '../../../proto/errors.ts';
import { audit } from '../../../storage/audit.ts';
import { containerById, setEnding, setName, setRestart } from '../../../storage/compute/containers.ts';
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
      const { id, name: before, stopGrace, restartPolicy } = ownedRow(state, call);
      const { name = before, stop_grace = stopGrace, restart = restartPolicy, ...change } = call.body;
      const ending = [
        ...(stop_grace === stopGrace ? [] : ['stop_grace']),
        ...(restart === restartPolicy ? [] : ['restart']),
      ];
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
        if (ending.length > 0) await setEnding(tx, id, { stopGrace: stop_grace, restartPolicy: restart });
        if (news === undefined && ending.length === 0 && name === before) return undefined;
        const row = await containerById(tx, id);
        if (row === undefined || row.desired === 'deleted') throw new Refusal('not_found');
        const restarted = news !== undefined && isStarting(row);
        const replaced = [...(news?.replaced ?? []), ...ending];
        const detail = { ...news, ...(replaced.length > 0 && { replaced }), restarted };
        if (news !== undefined || ending.length > 0)
          await audit(tx, auditEntry(call, 'container.settings', id, detail));
        if (news !== undefined) await putSettings(tx, id, wanted, sealKey);
        return restarted ? await setRestart(tx, id) : row;
      });
      if (written !== undefined) await reconciler.onSettingsChanged(state, ctx, written);
      return containerView(withProgress(state.row, state.progress), deps);
    }),

    handler(getSettings, async ({ state }: ActiveContainer, call) => {
      const row = ownedRow(state, call);
      return settingsView((await settingsOf(db, row.id, sealKey)) ?? NO_SETTINGS, row);
    }),
  ];
}
