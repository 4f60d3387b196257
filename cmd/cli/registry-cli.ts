/** `troupe registry` on the command line; registry.ts does the work. */
import { Argument, type Command } from 'commander';
import type { Flag } from '../config/option-values.ts';
import type { CommandOptions } from './command.ts';

/** Adds the commands; `data` and `json` are the options that most commands have. */
export function addRegistry(program: Command, { data, json }: { data: Flag; json: Flag }): void {
  const registry = program
    .command('registry')
    .description('set who may pull from the image registry, and attach one (works while the platform runs)');
  registry
    .command('visibility')
    .argument('<repository>', '<username>/<name>, without the registry and without a tag')
    .addArgument(new Argument('<visibility>', 'who may pull: anybody, or the owner').choices(['public', 'private']))
    .description('make a repository public or private')
    .option(...data)
    .option(...json)
    .action(async (repository: string, visibility: 'public' | 'private', options: CommandOptions) =>
      (await import('./registry.ts')).registryVisibility(repository, visibility, options),
    );
  registry
    .command('repositories')
    .description('list the repositories that were made public')
    .option(...data)
    .option(...json)
    .action(async (options: CommandOptions) => (await import('./registry.ts')).registryRepositories(options));
  registry
    .command('certificate')
    .description("print the certificate of REGISTRY_SIGNING_KEY, for the registry's rootcertbundle")
    .option(...data)
    .option(...json)
    .action(async (options: CommandOptions) => (await import('./registry.ts')).registryCertificate(options));
}
