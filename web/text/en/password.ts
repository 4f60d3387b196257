/** Of the page that a password link opens. */
export const PASSWORD = {
  title: 'Set a password',
  setFor: (name: string, host: string) => `For ${name} at ${host}.`,
  until: (time: string) => `The link works once, until ${time}.`,
  noLink: 'This address is not whole. Open the link as it was sent to you.',
  password: 'New password',
  passwordHint: '8 characters or more.',
  again: 'New password again',
  differ: 'The two are not the same.',
  submit: 'Set password',
  ends: 'Setting one logs you out everywhere.',
  done: (name: string) => `The password of ${name} is set.`,
  logIn: 'Log in with it.',
};
