/** Debian 12 with the oldest Node for npm, as a member of `docker`, who builds the base image. */
import { bothCommandsWork } from '../support/readme/two-commands.ts';

bothCommandsWork('Debian 12 with Node 20.19, as a member of docker', {
  debian: 12,
  node: '20.19',
  user: 'member',
  docker: 'empty',
});
