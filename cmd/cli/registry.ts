/**
 * `troupe registry visibility|repositories|certificate`: what an operator sets and needs to attach an image registry.
 */
import { certificateBundle, registrySigner } from '../../actors/auth/registry/registry-key.ts';
import { setVisibility, type Visibility } from '../../actors/auth/registry/registry-rights.ts';
import { publicRepositories } from '../../storage/auth/repositories.ts';
import { CliError } from '../config/cli-error.ts';
import { readEnvironment } from '../config/config.ts';
import { type CommandOptions, onDatabase, print, tableLines } from './command.ts';

/** Makes a repository public or private. Throws CliError or Refusal. */
export async function registryVisibility(
  repository: string,
  visibility: Visibility,
  options: CommandOptions,
): Promise<void> {
  const changed = await onDatabase(options, (db) => setVisibility(db, repository, visibility));
  print(options, { repository, visibility, changed }, () =>
    changed
      ? `${repository} is now ${visibility}. That is a rule: whether there is such a repository, only the registry ` +
        'knows.'
      : `${repository} is ${visibility} already.`,
  );
}

/** Prints the repositories that were made public, one a line: name, since when. */
export async function registryRepositories(options: CommandOptions): Promise<void> {
  const repositories = await onDatabase(options, publicRepositories);
  const rows = repositories.map(({ name, madePublicAt }) => ({
    repository: name,
    made_public_at: madePublicAt.toISOString(),
  }));
  const cells = rows.map((row) => [row.repository, row.made_public_at]);
  print(options, rows, () => tableLines(['REPOSITORY', 'PUBLIC SINCE'], cells).join('\n'));
}

/** Prints REGISTRY_SIGNING_KEY's certificates (PEM), for the registry's `rootcertbundle`; makes one the first time. */
export async function registryCertificate(options: CommandOptions): Promise<void> {
  const key = readEnvironment(process.env).REGISTRY_SIGNING_KEY;
  if (key === undefined) {
    throw new CliError(
      'REGISTRY_SIGNING_KEY is not set, and a registry needs it to check our tokens. Make a key with\n' +
        '  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out registry-key.pem\n' +
        'and give its path as REGISTRY_SIGNING_KEY, here and to `troupe up`.',
    );
  }
  const signer = await onDatabase(options, (db) => registrySigner(db, key));
  const certificate = certificateBundle(signer);
  print(options, { kid: signer.kid, certificate }, () => certificate.trimEnd());
}
