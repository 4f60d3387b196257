import { InvalidArgumentError } from 'commander';

/** The whole number of an option, at most seven digits. Throws commander's InvalidArgumentError for anything else. */
export function integer(value: string): number {
  if (!/^-?[0-9]{1,7}$/.test(value)) throw new InvalidArgumentError('must be a whole number.');
  return Number(value);
}
