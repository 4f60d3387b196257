/**
 * `troupe containers list`: all containers with what they wait for, for the operator. Reads the database: it works
 * whatever the nodes and the engine do.
 */
import { statusSchema } from '../../proto/compute/fields.ts';
import { allContainers, type OwnedContainerRow } from '../../storage/compute/containers.ts';
import { CliError } from '../config/cli-error.ts';
import { type CommandOptions, onDatabase, print, tableLines } from './command.ts';

/** Prints the containers, of all statuses or of one, oldest first. Throws CliError when there is no such status. */
export async function containersList(options: CommandOptions & { readonly status?: string }): Promise<void> {
  const { status } = options;
  if (status !== undefined && !statusSchema.safeParse(status).success)
    throw new CliError(`There is no status ${status}: it is one of ${statusSchema.options.join(', ')}.`);
  const all = await onDatabase(options, allContainers);
  const found = all.filter((row) => status === undefined || row.status === status);
  print(options, found.map(containerJson), () => drawContainers(found));
}

/** A container as JSON: fields as the compute API names them, times as ISO 8601. */
function containerJson(row: OwnedContainerRow) {
  return {
    id: row.id,
    owner: row.owner,
    user_id: row.userId,
    name: row.name,
    status: row.status,
    status_reason: row.statusReason,
    status_since: row.statusSince.toISOString(),
    created_at: row.createdAt.toISOString(),
  };
}

/** One line a container, and below it the reason of its status. */
function drawContainers(rows: readonly OwnedContainerRow[]): string {
  if (rows.length === 0) return 'There are no such containers.';
  const cells = rows.map(({ id, name, status, owner, statusSince }) => [
    id,
    status,
    owner || '-',
    statusSince.toISOString().slice(0, 19).replace('T', ' '),
    name,
  ]);
  return tableLines(['ID', 'STATUS', 'OWNER', 'SINCE', 'NAME'], cells)
    .flatMap((line, n) => {
      const reason = rows[n - 1]?.statusReason ?? null;
      return reason === null ? [line] : [line, `  ${reason}`];
    })
    .join('\n');
}
