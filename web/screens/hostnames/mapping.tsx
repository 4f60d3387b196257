/** How far a hostname is. */
import type { CallReply } from '../../../client/index.ts';
import { Status, type StatusShape } from '../../parts/status.tsx';
import { t } from '../../text/text.ts';

/** A hostname, as the platform lists it. */
export type MappedName = CallReply<'listMappings'>['domains'][number];

const SHAPES: Readonly<Record<MappedName['status'], StatusShape>> = {
  pending: 'waiting',
  verified: 'verified',
  failed: 'failed',
};

export function MappingStatus({ status }: Pick<MappedName, 'status'>) {
  return <Status shape={SHAPES[status]}>{t.hostnames.status[status]}</Status>;
}
