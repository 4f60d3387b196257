/** Leads to what a container serves. */
import { ExternalLink } from 'lucide';
import type { Container } from '../../../client/index.ts';
import { Button, LinkButton } from '../../parts/button.tsx';
import { t } from '../../text/text.ts';

interface OpenSiteProps {
  readonly container: Pick<Container, 'status'>;
  readonly href: string;
}

/** Where nothing runs there is nothing to open: the button stays, and says so. */
export function OpenSite({ container: { status }, href }: OpenSiteProps) {
  if (status === 'stopped' || status === 'failed')
    return (
      <Button icon={ExternalLink} reason={t.container.isStill}>
        {t.container.open}
      </Button>
    );
  return (
    <LinkButton icon={ExternalLink} href={href} outside>
      {t.container.open}
    </LinkButton>
  );
}
