/** What gateways keep of a program's answers. */
export const CACHE = {
  label: 'What the gateway keeps of the answers',
  choices: {
    explicit: 'what an answer declares fresh',
    default: 'answers that say nothing, too',
    off: 'nothing',
  },
  hints: {
    explicit: 'All else comes from your program each time. Changes show at once.',
    default: 'For up to 30 s: changes may show later.',
    off: 'Every answer comes from your program.',
  },
  shown: {
    explicit: 'the gateway keeps what answers declare fresh',
    default: 'the gateway keeps answers for up to 30 s',
    off: 'the gateway keeps no answers',
  },
  change: (what: string) => `Change what is kept of ${what}`,
  ofPort: (port: number) => `port ${port}`,
  title: (what: string) => `Answers at ${what}`,
  verb: 'Change it',
  changed: (what: string) => `Changed for ${what}`,
};
