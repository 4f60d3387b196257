import type { TroupeError } from '../../../client/index.ts';

/** Errors that are made here, and those whose sentence is written for programs. */
const SENTENCES: Readonly<Record<string, string>> = {
  unreachable: 'The platform cannot be reached. Your connection, or the platform, is away.',
  timeout: 'The platform did not answer in time.',
  unauthorized: 'You are not logged in any more.',
  missing_scope: 'Your session does not allow this.',
  session_not_kept:
    'This browser keeps no session over plain HTTP. Use the HTTPS address: the platform prints it as Gateway.',
  internal: 'Something went wrong on the platform.',
};

const plural = (many: number, one: string, more: string) => (many === 1 ? `1 ${one}` : `${many} ${more}`);

export const COMMON = {
  product: 'Troupe',
  calendar: {
    days: ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'],
    months: [
      ...['January', 'February', 'March', 'April', 'May', 'June'],
      ...['July', 'August', 'September', 'October', 'November', 'December'],
    ],
    shortMonths: ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sept', 'Oct', 'Nov', 'Dec'],
  },
  shell: {
    main: 'Main',
    short: 'Main, short',
    skip: 'Skip to the page',
    crumbs: 'You are here',
    loading: 'Loading',
    containers: 'Containers',
    hostnames: 'Hostnames',
    activity: 'Activity',
    access: 'Access',
    keys: 'SSH keys',
    tokens: 'API tokens',
    settings: 'Settings',
    more: 'More',
    unread: 'unread',
  },
  link: {
    live: 'Live',
    connecting: 'Connecting',
    offline: 'You are offline. What you see is the last that was known.',
    offlineReason: 'You are offline.',
    waiting: (seconds: number) => `The platform does not answer. Next try in ${seconds} s.`,
    reconnecting: 'Reconnecting. What you see may be old.',
    now: 'Try now',
  },
  failure: {
    sentence: ({ code, message }: TroupeError) => SENTENCES[code] ?? message,
    request: (id: string) => `Request ${id}`,
    again: 'Try again',
    wait: (seconds: number) => `Try again in ${seconds} s`,
  },
  dialog: { cancel: 'Cancel', close: 'Close' },
  copy: { done: 'Copied', label: (what: string) => `Copy ${what}` },
  secret: { save: 'Save as a file', kept: 'I have kept it' },
  command: { title: 'As a command', line: 'the command', request: 'the request' },
  plot: {
    now: 'now',
    nothing: 'nothing measured yet',
    label: (name: string, now: string, of: string) => `${name}: now ${now} ${of}`,
  },
  status: {
    pending: 'Waiting',
    initializing: 'Starting',
    running: 'Running',
    stopped: 'Stopped',
    failed: 'Failed',
  },
  sizes: {
    nano: 'half a core',
    micro: '1 core',
    mini: '2 cores',
    tiny: '1 core',
    small: '2 cores',
    medium: '4 cores',
  },
  many: plural,
  missing: {
    title: 'Nothing here',
    lead: 'No page has this address',
    why: 'It may have been deleted, or the address has a slip in it.',
    back: 'Go to your containers',
  },
};
