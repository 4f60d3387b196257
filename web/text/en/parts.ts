/** The parts of a container's page. */
export const NETWORK = {
  ports: 'Ports',
  none: 'Nothing from outside reaches it. Open a port to let the web in.',
  rule: (outer: number, inner: number) => `${outer} leads to ${inner}`,
  kinds: {
    https: 'HTTPS: your program in the container ends TLS itself',
    platform: 'HTTPS by the platform; HTTP to your program',
    http: 'HTTP',
    other: 'HTTP, and TLS as it is',
  },
  close: (port: number) => `Close port ${port}`,
  closed: (port: number) => `Port ${port} is closed`,
  opened: (port: number) => `Port ${port} is open`,
  outer: 'From outside',
  outerHint: '80, 443, or 8000 to 8999',
  inner: 'In the container',
  innerHint: 'The same unless given',
  https: 'HTTPS by the platform',
  httpsHint: 'With its certificate. Your program speaks plain HTTP.',
  add: 'Open port',
  map: 'Map a hostname',
  noHostname: 'No hostname of yours leads here.',
};

export const STORAGE = {
  used: 'In use',
  paths: 'Paths',
  changes: 'What changes',
  restartNote: 'The container restarts with this change.',
  restarts: 'Saved. The container restarts.',
  saved: 'Saved',
  discard: 'Files outside of the kept paths may go',
};

export const MACHINE = {
  processor: 'Processor',
  memory: 'Memory (MB)',
  memoryHint: '128 to 65536. Not less than is in use.',
  storage: 'Storage (GB)',
  storageHint: '1 to 1024',
  discard: 'The container may restart, and files outside of the kept paths may go',
  imageHint: 'It is pulled or built first, while the container runs on.',
  imageNote: 'Then the container restarts. Files in the kept paths stay; all others come from the new image.',
  waits: (image: string, reason = '') => `${image} comes next. ${reason}`.trim(),
};

export const SSH = {
  access: 'Reach it by SSH',
  accessHint: 'Switching it off ends what is open.',
  keys: 'Keys that open it',
  noKeys: 'None of your keys opens it.',
};

export const WORKLOAD = {
  variables: 'Variables',
  none: 'None yet. A variable is in the environment of the program inside.',
  isSecret: 'secret: its value is not shown',
  edit: (name: string) => `Change ${name}`,
  remove: (name: string) => `Remove ${name}`,
  removeTitle: (name: string) => `Remove ${name}?`,
  removeVerb: 'Remove',
  removed: (name: string) => `${name} is removed`,
  name: 'Name of the variable',
  value: 'Value',
  secret: 'Secret',
  secretHint: 'Nobody is shown its value again, you neither.',
  nameFirst: 'Give it a name first.',
  valueFirst: 'Type the value: that of a secret is not shown.',
  set: (name: string) => `${name} is set`,
  setVerb: 'Set',
  program: 'Program',
  command: 'Command',
  commandHint: 'Words as in a shell, with quotes, without variables. Empty: as the image says.',
  entrypoint: 'Entrypoint',
  entrypointHint: 'Drops the command of the image. Empty: as the image says.',
  folder: 'Working folder',
  folderHint: 'A path. Empty: where the image says.',
  openQuote: 'A quote is not closed.',
  grace: 'Seconds to stop in',
  graceHint: '1 to 300; then it is killed',
  restart: 'When it ends by itself',
  policies: { always: 'start it again', 'on-failure': 'start it again after a failure', no: 'leave it stopped' },
};
