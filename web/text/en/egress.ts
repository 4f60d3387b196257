export const EGRESS_TEXT = {
  title: 'What it may reach',
  reach: 'May reach',
  any: 'everything outside',
  none: 'nothing outside',
  list: 'these networks only',
  hint: 'It is reached as ever, and its private network stays open to it.',
  networks: 'Networks',
  networksHint: 'One a line, by the first address, such as 203.0.113.0/24. Names are found as ever.',
};
