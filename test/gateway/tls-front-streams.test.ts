/** The whole of tls-front.test.ts without the handles below sockets. */
import { useWires } from '../../transports/gateway/tcp/wires.ts';

useWires('stream');
await import('./tls-front.test.ts');
