/** What users are told of their containers: notifications of the category `compute`. */
import { notificationEvent } from '../../../proto/notify/notification.ts';
import type { ContainerRow } from '../../../storage/compute/containers.ts';

type Named = Pick<ContainerRow, 'id' | 'userId' | 'name'>;

/** It runs, as was asked for. `now`: Unix ms. */
export function startedNotice(row: Named, now: number) {
  return notice(row, now, 'Container started', `"${row.name}" is running.`);
}

/** It does not run any more. `why` completes "name: ...". */
export function stoppedNotice(row: Named, now: number, why: string) {
  return notice(row, now, 'Container stopped', `"${row.name}": ${why}.`);
}

/** Its time is over. */
export function expiredNotice(row: Named, now: number, deletedAt: Date) {
  const when = `${deletedAt.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
  const how = '`troupe update NAME --expires 7d`, or Settings in the console';
  const keep = `It is deleted after ${when}, unless you give it another time or none (${how}).`;
  return notice(row, now, 'Container expired', `The time of "${row.name}" is over, and it does not run. ${keep}`);
}

/** Its time was over for a day. */
export function expiryDeletionNotice(row: Named, now: number) {
  return notice(row, now, 'Container deleted', `"${row.name}" was deleted, a day after its time was over.`);
}

/** It keeps the image it has. `why`: whole sentences. */
export function imageKeptNotice(row: Named, now: number, why: string) {
  return notice(row, now, 'Image not changed', `"${row.name}": ${why}`);
}

/** It has its image and its settings of before again. `why`: whole sentences. */
export function changeGivenUpNotice(row: Named, now: number, why: string) {
  return notice(row, now, 'Change given up', `"${row.name}": ${why}`);
}

/** It runs, and is not well. `why`: whole sentences. */
export function unhealthyNotice(row: Named, now: number, why: string) {
  return notice(row, now, 'Container unhealthy', `"${row.name}": ${why}`);
}

function notice({ id, userId }: Named, now: number, title: string, message: string) {
  return notificationEvent('compute', now, {
    userId,
    title,
    message,
    link: `/containers/${id}`,
    category: 'compute',
    scope: '',
  });
}
