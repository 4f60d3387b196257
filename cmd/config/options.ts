/** Options that several commands have, and values that are checked while the command line is read. */
import { type Command, InvalidArgumentError } from 'commander';
import { defaultDataDir } from './program.ts';

/** A host name in lower case, at most 200 characters. */
export const HOST_NAME = /^(?=.{1,200}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/;

/** A host name, in lower case. Throws InvalidArgumentError. */
export function hostName(value: string): string {
  const name = value.toLowerCase();
  if (!HOST_NAME.test(name)) throw new InvalidArgumentError('must be a host name, such as cloud.example.com.');
  return name;
}

/** Where logs are shipped: `host:port`, or a URL with https:// for TLS. Throws InvalidArgumentError. */
export function collector(value: string): string {
  const url = /^https?:\/\//.test(value) ? value : `http://${value}`;
  if (!URL.canParse(url) || (url !== value && !/^[^/]+:[0-9]+$/.test(value)))
    throw new InvalidArgumentError('must be host:port, or a URL such as https://logs.example.com:4317.');
  return value;
}

/** A whole number of at most seven digits. Throws InvalidArgumentError. */
export function integer(value: string): number {
  if (!/^-?[0-9]{1,7}$/.test(value)) throw new InvalidArgumentError('must be a whole number.');
  return Number(value);
}

/** The offset of all ports; -1 stands for "auto". Throws InvalidArgumentError. */
function offset(value: string): number {
  if (value === 'auto') return -1;
  if (!/^[0-9]{1,5}$/.test(value)) throw new InvalidArgumentError('must be a whole number, or "auto".');
  return Number(value);
}

export const DATA = [
  '--data <dir>',
  'folder of the platform (default: TROUPE_DATA)',
  defaultDataDir(process.env),
] as const;
export const PRINT_JSON = ['--json', 'print JSON for scripts'] as const;

/** A command on the platform's data that prints for people or for scripts. Its own options come behind these. */
export function dataCommand(parent: Command, usage: string, description: string): Command {
  return parent
    .command(usage)
    .description(description)
    .option(...DATA)
    .option(...PRINT_JSON);
}

/** Of commands that serve until they are told to stop. */
export const READY_JSON = ['--json', 'print one line of JSON once it serves'] as const;
export const DOMAIN = [
  '--domain <name>',
  'parent domain of all host names (default: PLATFORM_DOMAIN, else troupe.localhost)',
  hostName,
] as const;
export const LISTEN = ['--listen <address>', 'address the services listen on', '127.0.0.1'] as const;
export const PORT_OFFSET = [
  '--port-offset <n>',
  'added to every default port; "auto" takes any free ports',
  offset,
  0,
] as const;
export const LOG_SERVICE = [
  '--log-service <address>',
  'ship logs to this collector over OTLP/gRPC, host:port',
  collector,
] as const;
export const LOG_SOURCE = ['--log-source <name>', 'name under which its logs are shipped'] as const;
export const TRUSTED_PROXIES = [
  '--trusted-proxies <list>',
  'addresses of proxies in front, whose X-Forwarded-For counts (default: TRUSTED_PROXIES)',
] as const;
export const PROXY_PROTOCOL = ['--proxy-protocol', 'the trusted proxies speak the PROXY protocol'] as const;
