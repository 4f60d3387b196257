/** The fields of a container's views, as clients know them: what an added field changes in the tests. */

/** As create, start and stop answer it; sorted. */
export const CREATED_FIELDS = [
  'created_at',
  'hostname',
  'https_enabled',
  'id',
  'instance_type',
  'memory_mb',
  'name',
  'pull_policy',
  'ssh_enabled',
  'status',
  'storage_gb',
];

/** As list and get answer it while it runs for the first time, with SSH disabled; sorted. */
export const VIEW_FIELDS = [
  ...CREATED_FIELDS,
  'changes_without_pause',
  'health',
  'image',
  'memory_used_mb',
  'mount_paths',
  'ports',
  'restarts',
  'ssh_command',
  'ssh_key_ids',
  'started_at',
  'storage_used_gb',
].sort();
