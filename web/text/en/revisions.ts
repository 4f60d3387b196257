export const REVISIONS = {
  title: 'What it ran',
  none: 'It has not run yet.',
  number: (number: number) => `Revision ${number}`,
  now: 'now',
  since: (day: string) => `since ${day}`,
  variables: (many: number) => (many === 0 ? 'no variables' : many === 1 ? '1 variable' : `${many} variables`),
  failed: (day: string) => `The last change that failed, ${day}`,
  answers: 'The last answers of its check:',
  log: 'The end of its log:',
  goBack: 'Go back to it',
  isNow: 'It is this revision now.',
  ask: (name: string, number: number) => `Go back to revision ${number} of ${name}?`,
  lead:
    'It gets the image of then, also if its tag leads elsewhere by now, and the settings of then. Secrets stay ' +
    'as they are, unless you ask for those of then. It is restarted, or a new one takes its place.',
  secrets: 'Secrets with the values of then, too',
  secretsHint: 'Not if one of them has leaked since. Secrets that came later stay.',
  goesBack: (name: string, number: number) => `${name} goes back to revision ${number}`,
};
