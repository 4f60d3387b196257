/** Debian 13 as it comes: its own Node, Docker and mmdebstrap, which `npm start` installs. */
import { bothCommandsWork } from '../support/readme/two-commands.ts';

bothCommandsWork('Debian 13, as root', { debian: 13, node: 'packaged', user: 'root', docker: 'none' });
