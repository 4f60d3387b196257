/**
 * `troupe domains list`: all mapped hostnames, for the operator. Reads the database: it works whatever the gateways do.
 */
import { allMappings, type MappingOverview } from '../../storage/network/overview.ts';
import { type CommandOptions, onDatabase, print, tableLines } from './command.ts';

/** Prints at most `limit` mappings by hostname. */
export async function domainsList(options: CommandOptions & { readonly limit: number }): Promise<void> {
  const found = await onDatabase(options, (db) => allMappings(db, options.limit));
  print(options, domainsJson(found), () => drawDomains(found, new Date()));
}

/** The mappings as JSON: fields as the networking API names them, times as ISO 8601. */
function domainsJson(mappings: readonly MappingOverview[]) {
  return mappings.map((mapping) => ({
    id: mapping.id,
    domain: mapping.hostname,
    owner: mapping.username,
    container_id: mapping.containerId,
    target_port: mapping.targetPort,
    status: mapping.status,
    certified_until: mapping.certifiedUntil?.toISOString() ?? null,
    detail: mapping.detail,
    created_at: mapping.createdAt.toISOString(),
  }));
}

/** One line a mapping, and below it what it waits for. */
export function drawDomains(mappings: readonly MappingOverview[], now: Date): string {
  if (mappings.length === 0) return 'No hostname is mapped.';
  const rows = mappings.map(({ hostname, status, username, containerId, targetPort, certifiedUntil }) => [
    hostname,
    status,
    username || '-',
    `${containerId}:${targetPort}`,
    certifiedUntil === undefined
      ? '-'
      : `${certifiedUntil > now ? 'until' : 'over since'} ${certifiedUntil.toISOString().slice(0, 10)}`,
  ]);
  return tableLines(['HOSTNAME', 'STATUS', 'OWNER', 'CONTAINER', 'CERTIFICATE'], rows)
    .flatMap((line, n) => {
      const detail = mappings[n - 1]?.detail ?? '';
      return detail === '' ? [line] : [line, `  ${detail}`];
    })
    .join('\n');
}
