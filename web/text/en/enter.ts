/** Of the page that leads to pages which are for their owner alone. */
export const ENTER = {
  title: 'On the way',
  lead: (host: string) => `${host} is for its owner alone. You are led there if that is you.`,
  notYours: (host: string) => `Nothing of yours is at ${host}. Ask its owner, or log in as another user.`,
  own: 'Your containers',
};
