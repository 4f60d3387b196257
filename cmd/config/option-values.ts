/** Values of options that are checked while the command line is read, before anything is opened. */
import { InvalidArgumentError } from 'commander';

/** An option as commander takes it: its flags, what it is, and its value where none is given. */
export type Flag = readonly [flags: string, description: string, fallback?: string];

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
