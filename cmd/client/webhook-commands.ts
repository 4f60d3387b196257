/** The commands for webhooks and mail: other ways to be told. */
import type { Command } from 'commander';
import { clientCommand, listCommand, several } from './common.ts';
import type { ClientCommandOptions } from './session.ts';
import type { MailOptions, WebhookOptions } from './webhooks.ts';

const CATEGORY = ['--category <names>', 'only these, such as compute,networking; may be repeated', several] as const;

export function addWebhookCommands(program: Command): void {
  const work = () => import('./webhooks.ts');
  const webhook = program.command('webhook').description('addresses of your own that are sent your notifications');
  listCommand(webhook, 'ls', 'list them').action(async (options: ClientCommandOptions) =>
    (await work()).listWebhooks(options),
  );
  clientCommand(webhook, 'add <url>', 'add one; its secret alone is printed, only now')
    .option(...CATEGORY)
    .action(async (url: string, options: WebhookOptions) => (await work()).addWebhook(url, options));
  clientCommand(webhook, 'rm <webhook>', 'delete one').action(async (text: string, options: ClientCommandOptions) =>
    (await work()).removeWebhook(text, options),
  );
  clientCommand(webhook, 'enable <webhook>', 'enable one again').action(
    async (text: string, options: ClientCommandOptions) => (await work()).setWebhookEnabled(text, true, options),
  );
  clientCommand(webhook, 'disable <webhook>', 'disable one, and drop what waits for it').action(
    async (text: string, options: ClientCommandOptions) => (await work()).setWebhookEnabled(text, false, options),
  );
  clientCommand(webhook, 'test <webhook>', 'send a test to one').action(
    async (text: string, options: ClientCommandOptions) => (await work()).testWebhook(text, options),
  );
  listCommand(webhook, 'deliveries <webhook>', 'list what one answered last').action(
    async (text: string, options: ClientCommandOptions) => (await work()).listDeliveries(text, options),
  );
  clientCommand(webhook, 'rotate <webhook>', 'make a new secret; it alone is printed, only now').action(
    async (text: string, options: ClientCommandOptions) => (await work()).rotateWebhook(text, options),
  );

  const mail = program.command('mail').description('notifications by mail');
  clientCommand(mail, 'get', 'show whether, and where, you are told by mail').action(
    async (options: ClientCommandOptions) => (await work()).showMail(options),
  );
  clientCommand(mail, 'set [address]', 'be told by mail; the address is sent a code')
    .option(...CATEGORY)
    .option('--off', 'turn mail off')
    .action(async (address: string | undefined, options: MailOptions) => (await work()).setMail(address, options));
  clientCommand(mail, 'verify <code>', 'prove the address by its code').action(
    async (code: string, options: ClientCommandOptions) => (await work()).verifyMail(code, options),
  );
}
