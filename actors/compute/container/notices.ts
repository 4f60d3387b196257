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
