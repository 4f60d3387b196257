/** A server on uWebSockets.js that decides about each upgrade after a while, as services do. Prints its port; ends with its standard input. */
import { listen } from '../../../transports/http/index.ts';
import { pause } from '../pause.ts';

const server = await listen(
  {
    ...{ host: '127.0.0.1', port: 0 },
    onRequest: () => ({ status: 404, headers: [] }),
    onUpgrade: async () => {
      await pause(1, 'slow peer');
      return {
        accept: {
          open: (socket) => void socket.send('hello'),
          message: () => {},
          drain: () => {},
          close: () => {},
        },
      };
    },
  },
  'uws',
);
process.stdout.write(`${server.port}\n`);
process.stdin.on('end', () => void server.close(0)).resume();
