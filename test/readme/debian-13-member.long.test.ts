/** Debian 13 with its own Node, as a member of `docker`, whose engine is there. */
import { bothCommandsWork } from '../support/readme/two-commands.ts';

bothCommandsWork('Debian 13, as a member of docker', { debian: 13, node: 'packaged', user: 'member', docker: 'kept' });
