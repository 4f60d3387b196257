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

export const SSH = {
  access: 'Reach it by SSH',
  accessHint: 'Switching it off ends what is open.',
  keys: 'Keys that open it',
  noKeys: 'None of your keys opens it.',
};
