/** `troupe.toml`: what a folder says of its own deployment. */
import { ClientFailure } from '../failure.ts';

export const SETTINGS_FILE = 'troupe.toml';

/** What troupe.toml and the options of the command may say. */
export interface FolderSettings {
  readonly name?: string | undefined;
  readonly image?: string | undefined;
  /** Empty: nothing is built. */
  readonly build?: string | undefined;
  /** Empty: nothing. */
  readonly release?: string | undefined;
  readonly start?: string | undefined;
  readonly port?: number | undefined;
  /** A path, `tcp` or `none`. */
  readonly health?: string | undefined;
  readonly grace?: number | undefined;
  /** MB and GB of a new container. */
  readonly memory?: number | undefined;
  readonly storage?: number | undefined;
  readonly size?: string | undefined;
  /** A readable address, if one is wanted. */
  readonly address?: string | undefined;
  /** What the container may reach: `any`, `none`, or networks, as a list or with commas between them. */
  readonly egress?: string | readonly string[] | undefined;
  readonly exclude?: readonly string[] | undefined;
}

/** A setting: what it must be, in words, and whether a value is that. */
interface SettingRule {
  readonly must: string;
  isRight(value: unknown): boolean;
}

const line: SettingRule = {
  must: 'a text of one line',
  isRight: (value) => typeof value === 'string' && value !== '' && !/\p{Cc}/u.test(value),
};
const script: SettingRule = {
  must: 'a text',
  isRight: (value) => typeof value === 'string' && value.length <= 32_768 && !value.includes('\0'),
};
const whole = (from: number, to: number): SettingRule => ({
  must: `a whole number from ${from} to ${to}`,
  isRight: (value) => typeof value === 'number' && Number.isInteger(value) && value >= from && value <= to,
});
const lines: SettingRule = {
  must: 'a list of texts',
  isRight: (value) => Array.isArray(value) && value.length <= 1000 && value.every((each) => line.isRight(each)),
};
const reach: SettingRule = {
  must: 'any, none, or networks such as 203.0.113.0/24',
  isRight: (value) => line.isRight(value) || (lines.isRight(value) && !isEmpty(value)),
};
const isEmpty = (value: unknown) => Array.isArray(value) && value.length === 0;

const RULES = {
  name: line,
  image: line,
  build: script,
  release: script,
  start: script,
  port: whole(1, 65_535),
  health: line,
  grace: whole(1, 600),
  memory: whole(1, 9_999_999),
  storage: whole(1, 9_999_999),
  size: line,
  address: line,
  egress: reach,
  exclude: lines,
} as const satisfies Record<keyof FolderSettings, SettingRule>;

const isSetting = (name: string): name is keyof FolderSettings => Object.hasOwn(RULES, name);

/** The settings of a text in TOML. Throws ClientFailure. */
export async function settingsOf(text: string): Promise<FolderSettings> {
  const { parse } = await import('smol-toml');
  let table: Record<string, unknown>;
  try {
    table = parse(text);
  } catch (cause) {
    const why = cause instanceof Error ? (cause.message.split('\n')[0] ?? '') : String(cause);
    throw new ClientFailure('usage', `${SETTINGS_FILE} cannot be read: ${why}`, { cause });
  }
  return checked(table, (name) => `${SETTINGS_FILE}: ${name}`);
}

/** Values as settings. `called`: how a sentence names one of them. Throws ClientFailure. */
export function checked(table: Readonly<Record<string, unknown>>, called: (name: string) => string): FolderSettings {
  for (const [name, value] of Object.entries(table)) {
    if (!isSetting(name))
      throw new ClientFailure('usage', `${called(name)} is not known: there is ${Object.keys(RULES).join(', ')}.`);
    const { must, isRight } = RULES[name];
    if (value !== undefined && !isRight(value)) throw new ClientFailure('usage', `${called(name)} must be ${must}.`);
  }
  return { ...table };
}

/** The text of the file with how the app starts, which it does not say yet. */
export function withStart(text: string, start: string): string {
  // A JSON text is a basic string of TOML, but for one character.
  return `start = ${JSON.stringify(start).replaceAll('\x7f', '\\u007f')}\n${text}`;
}
